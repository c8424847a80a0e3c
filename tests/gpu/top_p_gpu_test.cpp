// top_p on CUDA against the CPU and against sorting.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/gpu/sorted_top_p.h"
#include "tests/gpu/top_p_run.h"
#include "tests/support/nsa_case.h"

namespace versieve::kernels {

TEST_CASE("CUDA top_p gives the CPU's mask on weights whose sums are exact") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  std::mt19937_64 random(19);
  // Clusters of 1 to 16 blocks; the last does not fit in their shared memory.
  for (const std::int64_t length : {1, 31, 1000, 4096, 4097, 9000, 49153, 100000, 800001}) {
    const std::int64_t rows = 1 + static_cast<std::int64_t>(random() % 7);
    const std::int64_t stride = length + static_cast<std::int64_t>(random() % 9);
    std::vector<float> weights;
    for (std::int64_t i = 0; i < rows * stride; ++i) {
      const std::uint64_t draw = random() % 4096;  // few large ones, many ties
      weights.push_back(static_cast<float>(draw * draw / 65536) * 0x1p-8F);
    }
    for (const double p : {0.1, 0.9, 0.99, 1.0}) {
      CAPTURE(length, rows, stride, p);
      const TopPParams<float> params = top_p_params(rows, length, stride, p);
      const TopPAnswer got = top_p_on_gpu(*ops, params, weights);
      const TopPAnswer want = top_p_on_cpu(params, weights);
      CHECK(got.mask == want.mask);
      CHECK(got.mass == want.mass);
    }
  }
  // Bits do not depend on a bound, nor on the other lists of a call.
  for (const std::int64_t length : {1, 1000, 4096, 4097, 9000, 49153}) {
    const std::int64_t bound = length + 1 + static_cast<std::int64_t>(random() % 9000);
    const std::vector<float> weights = test::random_tensor<float>(2 * 3 * bound, 31);
    std::vector<float> squares;
    for (const float w : weights) {
      squares.push_back(w * w * w * w);
    }
    TopPParams<float> p{.rows = 3, .length = bound, .lists = 2, .p = 0.9};
    const OpsBuffer<float, StepCounts> counts(
        *ops, std::vector<StepCounts>{{.context_len = static_cast<std::int32_t>(length)}});
    p.counts = counts.data();
    const OpsBuffer<float> device(*ops, squares);
    OpsBuffer<float, std::int32_t> mask(*ops, Ints(static_cast<std::size_t>(2 * bound), -5));
    OpsBuffer<float> mass = test::poisoned<float>(*ops, 6);
    p.weights = device.data();
    p.mask = mask.data();
    p.mass = mass.data();
    ops->top_p(p);
    const Ints masks = mask.read();
    for (std::int64_t list = 0; list < 2; ++list) {
      CAPTURE(length, bound, list);
      const std::vector<float> own(squares.begin() + list * 3 * bound,
                                   squares.begin() + (list + 1) * 3 * bound);
      const TopPAnswer alone = top_p_on_gpu(*ops, top_p_params(3, length, bound, 0.9), own);
      const std::vector<float> masses = mass.read();
      CHECK(Ints(masks.begin() + list * bound, masks.begin() + list * bound + length) ==
            alone.mask);
      CHECK(masks[static_cast<std::size_t>(list * bound + length)] == -5);
      CHECK(std::vector<float>(masses.begin() + list * 3, masses.begin() + list * 3 + 3) ==
            alone.mass);
    }
  }
  const std::vector<float> zeros(200, 0.0F);
  CHECK(top_p_on_gpu(*ops, top_p_params(2, 100, 0, 0.5), zeros).mask == Ints(100, 1));
  CHECK(top_p_on_gpu(*ops, top_p_params(2, 100, 0, 0.5), zeros).mass == std::vector<float>{0, 0});
}

TEST_CASE("CUDA top_p keeps what sorting keeps") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  std::mt19937_64 random(29);
  for (const std::int64_t length : {1, 700, 4096, 20000, 70000}) {
    constexpr std::int64_t kRows = 3;
    std::vector<float> weights;  // whole numbers: sums are exact in any order
    for (std::int64_t i = 0; i < kRows * length; ++i) {
      const std::uint64_t draw = 1 + random() % 4096;
      weights.push_back(static_cast<float>(draw * draw / 64));
    }
    const OpsBuffer<float> device(*ops, weights);
    OpsBuffer<float> sorted(*ops, kRows * length), least(*ops, kRows);
    OpsBuffer<float, double> prefix(*ops, kRows * length);
    OpsBuffer<float, std::int32_t> mask(*ops, Ints(static_cast<std::size_t>(length), -5));
    for (const bool segmented : {false, true}) {
      testing::SortedTopP choice{.rows = kRows,
                                 .length = length,
                                 .p = 0.9,
                                 .segmented = segmented,
                                 .weights = device.data(),
                                 .sorted = sorted.data(),
                                 .prefix = prefix.data(),
                                 .least = least.data(),
                                 .mask = mask.data()};
      const std::size_t bytes = testing::sorted_top_p_bytes(choice);
      const OpsBuffer<float, std::int8_t> storage(*ops, static_cast<std::int64_t>(bytes) + 1);
      choice.storage = storage.data();
      testing::enqueue_sorted_top_p(choice, bytes, static_cast<cudaStream_t>(stream_of(*ops)));
      TopPParams<float> exact = top_p_params(kRows, length, length, 0.9);
      exact.iterations = 64;
      CAPTURE(length, segmented);
      CHECK(top_p_on_gpu(*ops, exact, weights).mask == mask.read());
    }
  }
}

}  // namespace versieve::kernels
