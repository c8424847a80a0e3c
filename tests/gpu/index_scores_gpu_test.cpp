// index_scores on CUDA against the CPU in double; and what a token-level indexer takes: scores of
// all positions, then the 2,048 largest with and without the step before's as a hint.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <set>

#include "kernels/index_scores/cpu.h"
#include "kernels/index_scores/launch.h"
#include "kernels/launch.h"
#include "model/launches/index_scores.h"
#include "tests/gpu/device.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/gpu/graph_timer.h"
#include "tests/gpu/topk_rows.h"

namespace versieve::kernels {
namespace {

using testing::DeviceArray;
using testing::GraphTimer;
using testing::no_gpu;

struct Shape {
  std::int64_t rows, length, heads, dim;
};

template <class T>
std::vector<T> normal(std::int64_t count, std::uint64_t seed) {
  test::FastRandom random(seed);
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(test::narrow<T>(random.normal()));
  }
  return values;
}

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}
std::vector<double> widened(const std::vector<Bf16>& values) {
  std::vector<double> wide;
  for (const Bf16 value : values) {
    wide.push_back(static_cast<double>(to_float(value)));
  }
  return wide;
}

// The furthest score from the CPU's in double, in the largest one's measure.
template <class T>
double furthest(const Shape& s) {
  const std::vector<T> q = normal<T>(s.rows * s.heads * s.dim, 1);
  const std::vector<T> keys = normal<T>(s.length * s.dim, 2);
  const std::vector<float> weights = normal<float>(s.rows * s.heads, 3);
  const std::vector<double> wide_q = widened(q), wide_keys = widened(keys);
  std::vector<double> want(static_cast<std::size_t>(s.rows * s.length));
  index_scores_cpu(IndexScoresParams<double>{.rows = s.rows,
                                             .length = s.length,
                                             .num_heads = s.heads,
                                             .head_dim = s.dim,
                                             .q = wide_q.data(),
                                             .weights = weights.data(),
                                             .keys = wide_keys.data(),
                                             .scores = want.data()},
                   12);
  const DeviceArray<T> on_q(q), on_keys(keys);
  const DeviceArray<float> on_weights(weights);
  std::vector<T> scores(want.size(), test::narrow<T>(1e30F));
  const DeviceArray<T> on_scores(scores);
  launch_index_scores(IndexScoresParams<T>{.rows = s.rows,
                                           .length = s.length,
                                           .num_heads = s.heads,
                                           .head_dim = s.dim,
                                           .q = on_q.data(),
                                           .weights = on_weights.data(),
                                           .keys = on_keys.data(),
                                           .scores = on_scores.data()},
                      {});
  check(cudaDeviceSynchronize());
  on_scores.read(scores);
  const std::vector<double> got = widened(scores);
  double largest = 0.0, off = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    off = std::max(off, std::abs(got[i] - want[i]));
  }
  return off / largest;
}

}  // namespace

TEST_CASE("CUDA index_scores agrees with double in every form", "[index]") {
  if (no_gpu()) {
    return;
  }
  for (const Shape& s : {Shape{1, 1, 8, 64}, Shape{1, 33, 64, 128}, Shape{3, 1000, 64, 128},
                         Shape{8, 4101, 32, 64}, Shape{9, 257, 16, 128}, Shape{17, 96, 64, 64},
                         Shape{2, 9001, 40, 128}, Shape{2, 101, 12, 80}, Shape{1, 70, 3, 128}}) {
    CAPTURE(s.rows, s.length, s.heads, s.dim);
    // Half a unit in the last place of bf16 at the largest, sums in f32 beside it.
    CHECK(furthest<Bf16>(s) < 1.0 / 256);
    CHECK(furthest<float>(s) < 1e-5);
  }
}

// us of scores and of the selection, warm where the keys fit L2; floor: the announced bytes at
// 3.35 TB/s or the products at 989 TFLOP/s. Hint: the answer to queries a tenth of noise away.
TEST_CASE("a token-level indexer's step, scores and selection", "[.][index_timing][index]") {
  if (no_gpu()) {
    return;
  }
  constexpr std::int64_t kHeads = 64, kDim = 128, kK = 2048, kMostLength = 524288, kMostRows = 32;
  constexpr double kBandwidth = 3.35e12, kTensorRate = 989e12;
  const std::vector<Bf16> keys = normal<Bf16>(kMostLength * kDim, 2);
  const std::vector<Bf16> q = normal<Bf16>(kMostRows * kHeads * kDim, 1);
  const std::vector<Bf16> noise = normal<Bf16>(kMostRows * kHeads * kDim, 7);
  std::vector<Bf16> q_before;
  for (std::size_t i = 0; i < q.size(); ++i) {
    q_before.push_back(test::narrow<Bf16>(to_float(q[i]) + 0.1F * to_float(noise[i])));
  }
  const DeviceArray<Bf16> on_keys(keys), on_q(q), on_before(q_before);
  const DeviceArray<float> on_weights(normal<float>(kMostRows * kHeads, 3));
  GraphTimer timer;
  std::printf("rows  length | scores us  floor us  ratio | hits  radix  no hint  hint us\n");
  for (const std::int64_t length : {8192, 32768, 65536, 131072, 262144, 524288}) {
    for (const std::int64_t rows : {1, 2, 8, 32}) {
      const DeviceArray<Bf16> scores(static_cast<std::size_t>(rows * length));
      const DeviceArray<std::int32_t> before(static_cast<std::size_t>(rows * kK));
      const DeviceArray<std::int32_t> indices(static_cast<std::size_t>(rows * kK));
      const DeviceArray<Bf16> values(static_cast<std::size_t>(rows * kK));
      IndexScoresParams<Bf16> index{.rows = rows,
                                    .length = length,
                                    .num_heads = kHeads,
                                    .head_dim = kDim,
                                    .q = on_before.data(),
                                    .weights = on_weights.data(),
                                    .keys = on_keys.data(),
                                    .scores = scores.data()};
      TopkParams<Bf16> p{.variant = TopkVariant::kGvr,
                         .rows = rows,
                         .length = length,
                         .k = kK,
                         .scores = scores.data(),
                         .indices = before.data(),
                         .values = values.data()};
      launch_index_scores(index, {});
      launch_topk(p, {});
      check(cudaDeviceSynchronize());
      index.q = on_q.data();
      p.indices = indices.data();
      const double scored = timer.us(
          16, [&](cudaStream_t stream) { launch_index_scores(index, {.stream = stream}); });
      const auto select = [&](TopkVariant variant, const std::int32_t* hint) {
        p.variant = variant;
        p.hint = hint;
        return timer.us(16, [&](cudaStream_t stream) { launch_topk(p, {.stream = stream}); });
      };
      const double radix = select(TopkVariant::kRadix, nullptr);
      const double without = select(TopkVariant::kGvr, nullptr);
      const double with = select(TopkVariant::kGvr, before.data());
      std::vector<std::int32_t> was(static_cast<std::size_t>(rows * kK)), is(was.size());
      before.read(was);
      indices.read(is);
      std::int64_t hits = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::set<std::int32_t> wanted(is.begin() + row * kK, is.begin() + (row + 1) * kK);
        hits += std::count_if(was.begin() + row * kK, was.begin() + (row + 1) * kK,
                              [&](std::int32_t i) { return wanted.count(i) != 0; });
      }
      const Traffic t = traffic::index_scores(rows, length, IndexHeads{kHeads, kDim}, 2);
      const double floor = 1e6 * std::max(t.total() / kBandwidth, t.flops / kTensorRate);
      std::printf("%4lld %7lld | %9.2f %9.2f %6.2f | %4.2f %6.2f %8.2f %8.2f\n",
                  static_cast<long long>(rows), static_cast<long long>(length), scored, floor,
                  scored / floor, static_cast<double>(hits) / static_cast<double>(rows * kK), radix,
                  without, with);
      std::fflush(stdout);
    }
  }
}

}  // namespace versieve::kernels
