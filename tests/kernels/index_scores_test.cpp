// index_scores on the CPU against the formula, and what its traffic counts.
#include "kernels/index_scores/cpu.h"

#include <catch2/catch.hpp>

#include "model/launches/index_scores.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {

TEST_CASE("index_scores adds what each head's query finds, weighted, negatives cut off") {
  // Two heads of two, three positions.
  const std::vector<double> q = {1, 0, 0, 2};
  const std::vector<float> weights = {1.0F, -0.5F};
  const std::vector<double> keys = {3, 1, -4, 2, 5, -7};
  std::vector<double> scores(3, 99.0);
  index_scores_cpu(IndexScoresParams<double>{.rows = 1,
                                             .length = 3,
                                             .num_heads = 2,
                                             .head_dim = 2,
                                             .q = q.data(),
                                             .weights = weights.data(),
                                             .keys = keys.data(),
                                             .scores = scores.data()},
                   1);
  CHECK(scores == std::vector<double>{3 - 0.5 * 2, 0 - 0.5 * 4, 5 - 0});
}

TEMPLATE_TEST_CASE("index_scores agrees with double and does not depend on threads", "", float) {
  constexpr std::int64_t kRows = 3, kLength = 700, kHeads = 5, kDim = 24;
  const auto q = test::random_tensor<TestType>(kRows * kHeads * kDim, 1);
  const auto weights = test::random_tensor<float>(kRows * kHeads, 2);
  const auto keys = test::random_tensor<TestType>(kLength * kDim, 3);
  std::vector<double> want;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t i = 0; i < kLength; ++i) {
      double sum = 0.0;
      for (std::int64_t h = 0; h < kHeads; ++h) {
        double product = 0.0;
        for (std::int64_t e = 0; e < kDim; ++e) {
          product +=
              static_cast<double>(q[static_cast<std::size_t>((row * kHeads + h) * kDim + e)]) *
              static_cast<double>(keys[static_cast<std::size_t>(i * kDim + e)]);
        }
        sum += static_cast<double>(weights[static_cast<std::size_t>(row * kHeads + h)]) *
               std::max(product, 0.0);
      }
      want.push_back(sum);
    }
  }
  std::vector<TestType> one(want.size()), four(want.size());
  IndexScoresParams<TestType> p{.rows = kRows,
                                .length = kLength,
                                .num_heads = kHeads,
                                .head_dim = kDim,
                                .q = q.data(),
                                .weights = weights.data(),
                                .keys = keys.data(),
                                .scores = one.data()};
  index_scores_cpu(p, 1);
  p.scores = four.data();
  index_scores_cpu(p, 4);
  CHECK(one == four);
  CHECK(test::relative_error(one, want) < 1e-6);
}

TEST_CASE("index_scores moves the keys once, however many queries there are") {
  const Traffic one = traffic::index_scores(1, 8192, IndexHeads{64, 128}, 2);
  const Traffic eight = traffic::index_scores(8, 8192, IndexHeads{64, 128}, 2);
  CHECK(one.total_read() == 8192.0 * 256 + 64 * (256 + 4));
  CHECK(one.total_write() == 8192.0 * 2);
  CHECK(eight.total_read() - one.total_read() == 7.0 * 64 * (256 + 4));
  CHECK(one.flops == 8192.0 * 64 * (2 * 128 + 3));
}

}  // namespace versieve::kernels
