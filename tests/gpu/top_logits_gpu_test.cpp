// top_logits on CUDA against the CPU form in double: places exactly, log-probabilities closely; a
// row's bits do not depend on the rows beside it.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/top_logits/cpu.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {
namespace {

template <class T>
void check_top_logits(Ops<T>& ops, std::int64_t vocab, std::int64_t k, bool ties) {
  const std::int64_t rows = 3;
  std::vector<float> values = test::random_tensor<float>(rows * vocab, 7, 2.0);
  for (float& value : values) {
    value = ties ? std::round(value) : value;
  }
  values[1] = -std::numeric_limits<float>::infinity();
  // The best of row 1 lie side by side; row 2 begins with a quarter of nothing.
  std::fill_n(values.begin() + vocab + vocab / 3, vocab / 7, 9.0F);
  std::fill_n(values.begin() + 2 * vocab, vocab / 4, -std::numeric_limits<float>::infinity());
  const auto logits = test::narrow_all<T>(values);
  const OpsBuffer<T> device_logits(ops, logits);
  OpsBuffer<T, std::int32_t> index(
      ops, std::vector<std::int32_t>(static_cast<std::size_t>(rows * k), -5));
  OpsBuffer<T, float> log_probability(ops, rows * k);
  TopLogitsParams<T> p{.rows = rows,
                       .vocab = vocab,
                       .k = k,
                       .logits = device_logits.data(),
                       .index = index.data(),
                       .log_probability = log_probability.data()};
  ops.top_logits(p);
  const std::vector<double> wide = test::widen_all(logits);
  std::vector<std::int32_t> want(static_cast<std::size_t>(rows * k));
  std::vector<float> want_log(want.size());
  top_logits_cpu(TopLogitsParams<double>{.rows = rows,
                                         .vocab = vocab,
                                         .k = k,
                                         .logits = wide.data(),
                                         .index = want.data(),
                                         .log_probability = want_log.data()},
                 2);
  INFO("V " << vocab << " k " << k << " ties " << ties);
  REQUIRE(index.read() == want);
  const std::vector<float> got_log = log_probability.read();
  for (std::size_t i = 0; i < want.size(); ++i) {
    REQUIRE(got_log[i] == Approx(want_log[i]).epsilon(1e-5));
  }
  p.rows = 1;
  p.logits = device_logits.data() + 2 * vocab;
  ops.top_logits(p);
  const std::vector<float> alone = log_probability.read();
  REQUIRE(std::memcmp(alone.data(), got_log.data() + 2 * k,
                      static_cast<std::size_t>(k) * sizeof(float)) == 0);
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA top_logits lists what the CPU lists, ties included", "[top_logits]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const std::int64_t vocab :
       {64, 100, 272, 512, 513, 1024, 1027, 4096, 4100, 16384, 32003, 128256, 131072}) {
    for (const std::int64_t k : {1, 2, 8, 16, 64}) {
      check_top_logits<TestType>(*ops, vocab, k, false);
      check_top_logits<TestType>(*ops, vocab, k, true);
    }
  }
}

// For checkers that slow kernels a thousandfold: a short row and a long one.
TEST_CASE("CUDA top_logits lists what the CPU lists in two small shapes", "[top_logits][race]") {
  const auto ops = test::try_gpu_ops<float>();
  if (!ops) {
    return;
  }
  check_top_logits<float>(*ops, 513, 8, true);
  check_top_logits<float>(*ops, 32003, 8, false);
}

}  // namespace versieve::kernels
