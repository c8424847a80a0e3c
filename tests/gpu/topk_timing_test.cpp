// How long topk takes: CUB's radix sort, the exact `sort`, `radix`, and `gvr` with hints of real
// decoding and with useless ones, in one run. Captured graphs of 16 calls on one set of buffers:
// scores are as the launch that made them leaves them, in L2 if they fit. Prints the tables of
// kernels/topk/MEASURED.md and checks two goals: gvr at least 2.42 times under CUB's sort in the
// mean (Guess-Verify-Refine top-k's greatest), and at most 1.1 times radix with a useless hint.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <set>

#include "kernels/cpu.h"
#include "kernels/launch.h"
#include "kernels/topk/select.h"
#include "kernels/topk/short_rows.h"
#include "tests/gpu/cub_sort.h"
#include "tests/gpu/decode_scores.h"
#include "tests/gpu/device.h"
#include "tests/gpu/empty_launch.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/gpu/graph_timer.h"
#include "tests/gpu/secant_count.h"
#include "tests/gpu/topk_rows.h"

namespace versieve::kernels {
namespace {

using test::FastRandom;
using test::HintForm;
using test::RowForm;
using testing::DeviceArray;
using testing::GraphTimer;
using testing::no_gpu;
using Ints = std::vector<std::int32_t>;

constexpr int kHostThreads = 12;

constexpr int kCalls = 16;

// Rows on the device with room for answers, and the CPU's choice.
template <class T>
class Cell {
 public:
  Cell(std::int64_t rows, std::int64_t length, std::int64_t k, const std::vector<T>& scores)
      : scores_(scores),
        hint_(static_cast<std::size_t>(rows * k)),
        indices_(static_cast<std::size_t>(rows * k)),
        values_(static_cast<std::size_t>(rows * k)) {
    p_ = {.rows = rows,
          .length = length,
          .k = k,
          .scores = scores_.data(),
          .indices = indices_.data(),
          .values = values_.data()};
  }
  const TopkParams<T>& params() const { return p_; }

  double select_us(GraphTimer& timer, TopkVariant variant, const Ints& hint,
                   const SelectShape& shape) {
    TopkParams<T> p = p_;
    p.variant = variant;
    if (!hint.empty()) {
      hint_.write(hint);
      p.hint = hint_.data();
    }
    return timer.us(kCalls,
                    [&](cudaStream_t stream) { launch_select(p, shape, {.stream = stream}); });
  }
  // As Ops would launch it.
  double us(GraphTimer& timer, TopkVariant variant, const Ints& hint) {
    TopkParams<T> p = p_;
    p.variant = variant;
    if (!hint.empty()) {
      hint_.write(hint);
      p.hint = hint_.data();
    }
    return timer.us(kCalls, [&](cudaStream_t stream) { launch_topk(p, {.stream = stream}); });
  }
  double sort_us(GraphTimer& timer) {
    const std::size_t bytes = topk_scratch_bytes(p_);
    const DeviceArray<char> scratch(bytes);
    const LaunchContext context{.scratch = scratch.data(), .scratch_bytes = bytes};
    return timer.us(few_calls(), [&](cudaStream_t stream) {
      LaunchContext c = context;
      c.stream = stream;
      launch_topk(p_, c);
    });
  }
  // The faster of CUB's two forms, on random scores already there: (score, index) pairs only.
  double cub_us(GraphTimer& timer) {
    const std::size_t count = static_cast<std::size_t>(p_.rows * p_.length);
    const DeviceArray<float> sorted(count);
    const DeviceArray<std::int32_t> index(count), sorted_index(count);
    double best = 1e30;
    for (const bool segmented : {false, true}) {
      testing::CubSort s{.rows = p_.rows,
                         .length = p_.length,
                         .segmented = segmented,
                         .scores = reinterpret_cast<const float*>(p_.scores),
                         .sorted = sorted.data(),
                         .index = index.data(),
                         .sorted_index = sorted_index.data()};
      const std::size_t bytes = testing::cub_sort_bytes(s);
      const DeviceArray<char> storage(bytes);
      s.storage = storage.data();
      best = std::min(best, timer.us(few_calls(), [&](cudaStream_t stream) {
        testing::enqueue_cub_sort(s, bytes, stream);
      }));
    }
    return best;
  }
  Ints chosen() {
    Ints answer(static_cast<std::size_t>(p_.rows * p_.k));
    TopkParams<T> p = p_;
    p.variant = TopkVariant::kRadix;
    launch_select(p, select_shape(p), {});
    check(cudaDeviceSynchronize());
    indices_.read(answer);
    return answer;
  }

 private:
  int few_calls() const { return p_.rows * p_.length > (1 << 22) ? 1 : 4; }

  DeviceArray<T> scores_;
  DeviceArray<std::int32_t> hint_, indices_;
  DeviceArray<T> values_;
  TopkParams<T> p_;
};

Ints hints_for(const Ints& chosen, const TopkParams<float>& p, HintForm form) {
  Ints hints;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const Ints one = test::make_hint(
        form, {chosen.begin() + row * p.k, chosen.begin() + (row + 1) * p.k}, p.length, 1);
    hints.insert(hints.end(), one.begin(), one.end());
  }
  return hints;
}

double hit_ratio(const Ints& hint, const Ints& chosen, std::int64_t rows, std::int64_t k) {
  std::int64_t hits = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::set<std::int32_t> want(chosen.begin() + row * k, chosen.begin() + (row + 1) * k);
    hits += std::count_if(hint.begin() + row * k, hint.begin() + (row + 1) * k,
                          [&](std::int32_t i) { return want.count(i) != 0; });
  }
  return static_cast<double>(hits) / static_cast<double>(rows * k);
}

struct Ratios {
  std::vector<double> over_cub = {}, over_sort = {}, over_radix = {}, useless = {};
};

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

// One line of the table. `hint`: of the source, [R, k].
void time_cell(GraphTimer& timer, const char* source, std::int64_t rows, std::int64_t length,
               std::int64_t k, const std::vector<float>& scores, const Ints& hint, Ratios& ratios) {
  Cell<float> cell(rows, length, k, scores);
  const Ints chosen = cell.chosen();
  const double cub = cell.cub_us(timer);
  const double sort = cell.sort_us(timer);
  const double radix = cell.us(timer, TopkVariant::kRadix, {});
  const double gvr = cell.us(timer, TopkVariant::kGvr, hint);
  const double random =
      cell.us(timer, TopkVariant::kGvr, hints_for(chosen, cell.params(), HintForm::kRandom));
  const double worst =
      cell.us(timer, TopkVariant::kGvr, hints_for(chosen, cell.params(), HintForm::kWorst));
  const double none =
      cell.us(timer, TopkVariant::kGvr, hints_for(chosen, cell.params(), HintForm::kAbsent));
  TopkParams<float> as_gvr = cell.params();
  as_gvr.variant = TopkVariant::kGvr;
  const SelectShape shape = select_shape(as_gvr);
  std::printf(
      "%-7s %4lld %7lld %5lld  %2dx%-2d %5.2f %9.1f %9.1f %7.2f %7.2f | %7.2f %7.2f %7.2f | %6.2f "
      "%6.2f\n",
      source, static_cast<long long>(rows), static_cast<long long>(length),
      static_cast<long long>(k), shape.cluster, shape.items, hit_ratio(hint, chosen, rows, k), cub,
      sort, radix, gvr, random, worst, none, cub / gvr, radix / gvr);
  std::fflush(stdout);
  ratios.over_cub.push_back(cub / gvr);
  ratios.over_sort.push_back(sort / gvr);
  ratios.over_radix.push_back(radix / gvr);
  ratios.useless.push_back(std::max({random, worst, none}) / radix);
}

void print_head(const char* title) {
  std::printf(
      "%s, f32, us a call\n%-7s %4s %7s %5s  %-5s %5s %9s %9s %7s %7s | %7s %7s %7s | %6s %6s\n",
      title, "scores", "rows", "length", "k", "shape", "hits", "cub", "sort", "radix", "gvr",
      "random", "worst", "absent", "cub/g", "rad/g");
}

void print_ratios(const char* title, const Ratios& r) {
  std::printf(
      "%s: gvr over CUB's sort %.2fx in the mean (least %.2f), over `sort` %.2fx, over `radix` "
      "%.2fx (least %.2f); worst useless hint over radix %.3f (mean %.3f)\n",
      title, mean(r.over_cub), *std::min_element(r.over_cub.begin(), r.over_cub.end()),
      mean(r.over_sort), mean(r.over_radix),
      *std::min_element(r.over_radix.begin(), r.over_radix.end()),
      *std::max_element(r.useless.begin(), r.useless.end()), mean(r.useless));
}

// Rows [first step, ...) of a recording, and the rows one step before: those of the hints.
std::vector<float> rows_of(const testing::DecodeScores& d, std::int64_t step, std::int64_t rows) {
  const auto begin = d.scores.begin() + step * d.heads * d.length;
  return {begin, begin + rows * d.length};
}

}  // namespace

TEST_CASE("gvr is 2.42 times under CUB's radix sort with hints of real decoding",
          "[.][timing][topk]") {
  if (no_gpu()) {
    return;
  }
  const bool reduced = std::getenv("VERSIEVE_TEST_REDUCED") != nullptr;
  const std::vector<testing::DecodeScores> recorded = testing::decode_scores(
      reduced ? std::vector<std::int64_t>{8192} : std::vector<std::int64_t>{8192, 32768, 131072},
      23);
  GraphTimer timer;
  Ratios ratios;
  print_head("token-level attention of the demo target, hint: the step before");
  for (const testing::DecodeScores& d : recorded) {
    for (const std::int64_t rows : {std::int64_t{1}, d.heads, 4 * d.heads, std::int64_t{128}}) {
      for (const std::int64_t k : {16, 256, 2048}) {
        Cell<float> before(rows, d.length, k, rows_of(d, 0, rows));
        time_cell(timer, "decode", rows, d.length, k, rows_of(d, 1, rows), before.chosen(), ratios);
      }
    }
  }
  print_ratios("real decoding", ratios);
  CHECK(mean(ratios.over_cub) >= 2.42);
  CHECK(*std::max_element(ratios.useless.begin(), ratios.useless.end()) <= 1.1);
}

// Real decoding again, rows that one block holds: the paper's counting alone (nothing is selected)
// beside the whole selection, which takes no hint.
TEST_CASE("a whole selection of a short row beside counting by secants alone",
          "[.][secant][topk]") {
  if (no_gpu()) {
    return;
  }
  GraphTimer timer;
  std::printf("rows length     k  secant us  counts  within  | whole us\n");
  for (const testing::DecodeScores& d : testing::decode_scores({8192, 32768}, 23)) {
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{32}, std::int64_t{128}}) {
      for (const std::int64_t k : {64, 256, 2048}) {
        Cell<float> before(rows, d.length, k, rows_of(d, 0, rows));
        const Ints hint = before.chosen();
        const DeviceArray<std::int32_t> hints(hint);
        const DeviceArray<std::int32_t> counts(static_cast<std::size_t>(rows));
        const DeviceArray<std::int32_t> reached(static_cast<std::size_t>(rows));
        Cell<float> cell(rows, d.length, k, rows_of(d, 1, rows));
        const testing::SecantCount s{.rows = rows,
                                     .length = d.length,
                                     .k = k,
                                     .scores = cell.params().scores,
                                     .hint = hints.data(),
                                     .counts = counts.data(),
                                     .reached = reached.data()};
        const double secant = timer.us(
            kCalls, [&](cudaStream_t stream) { testing::enqueue_secant_count(s, stream); });
        Ints passes(static_cast<std::size_t>(rows)), found(static_cast<std::size_t>(rows));
        counts.read(passes);
        reached.read(found);
        const auto within = std::count_if(found.begin(), found.end(), [&](std::int32_t n) {
          return n >= k && n <= k + std::max<std::int64_t>(k / 2, 32);
        });
        std::printf("%4lld %6lld %5lld  %9.2f  %6.1f  %3lld/%lld  | %8.2f\n",
                    static_cast<long long>(rows), static_cast<long long>(d.length),
                    static_cast<long long>(k), secant,
                    static_cast<double>(std::accumulate(passes.begin(), passes.end(), 0)) /
                        static_cast<double>(rows),
                    static_cast<long long>(within), static_cast<long long>(rows),
                    cell.us(timer, TopkVariant::kGvr, {}));
        std::fflush(stdout);
      }
    }
  }
}

TEST_CASE("a useless hint costs gvr at most a tenth over radix", "[.][timing][topk]") {
  if (no_gpu()) {
    return;
  }
  GraphTimer timer;
  Ratios ratios;
  print_head("normal scores, a quarter of the hint random");
  for (const std::int64_t length : {8192, 32768, 65536, 262144}) {
    for (const std::int64_t rows : {1, 16, 128}) {
      std::vector<float> scores;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::vector<float> one =
            test::make_row(RowForm::kNormal, length, static_cast<std::uint64_t>(row));
        scores.insert(scores.end(), one.begin(), one.end());
      }
      for (const std::int64_t k : {16, 2048}) {
        Cell<float> cell(rows, length, k, scores);
        time_cell(timer, "normal", rows, length, k, scores,
                  hints_for(cell.chosen(), cell.params(), HintForm::kMostly), ratios);
      }
    }
  }
  print_ratios("normal scores", ratios);
  CHECK(*std::max_element(ratios.useless.begin(), ratios.useless.end()) <= 1.1);
}

// The cells that engine/measure/bench/peer_topk.py sets beside other people's: one line each,
// "ours rows length k us" of the call as Ops launches it, without a hint; then the cluster's form
// (select.cu) and those of short_rows.cu.
TEST_CASE("topk on normal scores, the cells of other people's tables", "[.][peers][topk]") {
  if (no_gpu()) {
    return;
  }
  constexpr std::int64_t kMostRows = 128;
  constexpr std::int64_t kMostLength = 524288;
  FastRandom random(1);
  std::vector<float> scores(static_cast<std::size_t>(kMostRows * kMostLength));
  for (float& score : scores) {
    score = random.normal();
  }
  const DeviceArray<float> on_device(scores);
  GraphTimer timer;
  for (const unsigned cluster : {1U, 8U, 16U}) {
    std::printf("launch 1 row, cluster of %u: %.2f us\n", cluster,
                timer.us(kCalls, [&](cudaStream_t stream) {
                  test::launch_empty(cluster, cluster, stream);
                }));
  }
  for (const std::int64_t length : {8192, 16384, 32768, 65536, 131072, 262144, 524288}) {
    for (const std::int64_t rows : {1, 8, 32, 128}) {
      for (const std::int64_t k : {64, 256, 1024, 2048}) {
        DeviceArray<std::int32_t> indices(static_cast<std::size_t>(rows * k));
        DeviceArray<float> values(static_cast<std::size_t>(rows * k));
        TopkParams<float> p{.variant = TopkVariant::kGvr,
                            .rows = rows,
                            .length = length,
                            .k = k,
                            .scores = on_device.data(),
                            .indices = indices.data(),
                            .values = values.data()};
        const double gvr =
            timer.us(kCalls, [&](cudaStream_t stream) { launch_topk(p, {.stream = stream}); });
        std::printf("ours %4lld %7lld %5lld %8.2f", static_cast<long long>(rows),
                    static_cast<long long>(length), static_cast<long long>(k), gvr);
        std::printf("   select %8.2f", timer.us(kCalls, [&](cudaStream_t stream) {
          launch_select(p, select_shape(p), {.stream = stream});
        }));
        for (const int items : {8, 16}) {
          if (short_rows_hold(p, items)) {
            std::printf("  1x%d %.2f", items, timer.us(kCalls, [&](cudaStream_t stream) {
              launch_short_rows(p, items, {.stream = stream});
            }));
          }
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
}

// What select_shape is made of.
TEMPLATE_TEST_CASE("topk in every shape over the chip", "[.][sweep][topk]", float, Bf16) {
  if (no_gpu()) {
    return;
  }
  GraphTimer timer;
  std::printf("%zu-byte scores: us of radix / gvr a shape (cluster x items)\n", sizeof(TestType));
  for (const std::int64_t length : {8192, 32768, 65536, 131072, 262144}) {
    std::vector<TestType> row;
    for (const float score : test::make_row(RowForm::kNormal, length, 3)) {
      row.push_back(test::narrow<TestType>(score));
    }
    for (const std::int64_t rows : {1, 8, 32, 128}) {
      std::vector<TestType> scores;
      for (std::int64_t i = 0; i < rows; ++i) {
        scores.insert(scores.end(), row.begin(), row.end());
      }
      Cell<TestType> cell(rows, length, 512, scores);
      const Ints chosen = cell.chosen();
      const TopkParams<float> like{.rows = rows, .length = length, .k = 512};
      const Ints hint = hints_for(chosen, like, HintForm::kMostly);
      const SelectShape now = select_shape(cell.params());
      std::printf("%4lld %7lld [%dx%d]", static_cast<long long>(rows),
                  static_cast<long long>(length), now.cluster, now.items);
      for (const int cluster : {1, 2, 4, 8, 16}) {
        for (const int items : {4, 8, 16, 32}) {
          const SelectShape shape{cluster, items};
          const std::int64_t chunks = length / (std::int64_t{cluster} * items * 512);
          const bool wasteful = std::int64_t{cluster} * items * 512 >= 2 * length || chunks > 16 ||
                                rows * cluster > 512;
          if (!select_fits(cell.params(), shape) || wasteful) {
            continue;
          }
          std::printf(" %dx%d %.2f/%.2f", cluster, items,
                      cell.select_us(timer, TopkVariant::kRadix, {}, shape),
                      cell.select_us(timer, TopkVariant::kGvr, hint, shape));
        }
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace versieve::kernels
