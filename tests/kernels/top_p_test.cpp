// top_p by hand, against its own rule, and against sorting.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu.h"

namespace versieve::kernels {
namespace {

template <class S>
struct Kept {
  std::vector<std::int32_t> mask;
  std::vector<S> mass;
};

template <class S>
Kept<S> run(const std::vector<S>& weights, std::int64_t rows, double p, std::int64_t iterations,
            int threads = 1) {
  const std::int64_t length = static_cast<std::int64_t>(weights.size()) / rows;
  Kept<S> got{.mask = std::vector<std::int32_t>(static_cast<std::size_t>(length), 9),
              .mass = std::vector<S>(static_cast<std::size_t>(rows), S{-1})};
  top_p_cpu<S>({.rows = rows,
                .length = length,
                .p = p,
                .iterations = iterations,
                .weights = weights.data(),
                .mask = got.mask.data(),
                .mass = got.mass.data()},
               threads);
  return got;
}

using Mask = std::vector<std::int32_t>;

}  // namespace

TEMPLATE_TEST_CASE("top_p bisects as by hand", "", double, float) {
  const std::vector<TestType> row = {TestType(0.5), TestType(0.25), TestType(0.125),
                                     TestType(0.125)};
  // Wanted 0.75. Thresholds 0.25 (mass 0.75: enough, low = 0.25), 0.375 (0.5: high), 0.3125 (high).
  const Kept<TestType> three = run(row, 1, 0.75, 3);
  CHECK(three.mask == Mask{1, 1, 0, 0});
  CHECK(three.mass[0] == TestType(0.75));
  // Without a halving the threshold is 0: all are kept.
  CHECK(run(row, 1, 0.75, 0).mask == Mask{1, 1, 1, 1});
  // Wanted 0.45: 0.25 is enough, 0.375 is enough.
  CHECK(run(row, 1, 0.45, 2).mask == Mask{1, 0, 0, 0});
  // One halving stops at 0.25, though less would do: exactly `iterations`, never more.
  CHECK(run(row, 1, 0.45, 1).mask == Mask{1, 1, 0, 0});
}

TEMPLATE_TEST_CASE("top_p unites the rows and gives each row's own mass", "", double, float) {
  const std::vector<TestType> rows = {4, 1, 1, 0,  //
                                      0, 0, 1, 3};
  const Kept<TestType> got = run(rows, 2, 0.6, 10, 2);
  CHECK(got.mask == Mask{1, 0, 0, 1});
  CHECK(got.mass == std::vector<TestType>{4, 3});  // absolute: the rows do not sum to 1
}

TEMPLATE_TEST_CASE("top_p keeps all of a row of zeros, with mass 0, and all at p = 1", "", double,
                   float) {
  const std::vector<TestType> zeros = {0, 0, 0};
  CHECK(run(zeros, 1, 0.5, 10).mask == Mask{1, 1, 1});
  CHECK(run(zeros, 1, 0.5, 10).mass[0] == TestType(0));
  // p = 1 may drop nothing that weighs something; zeros go once the threshold has left 0.
  const std::vector<TestType> row = {TestType(0.9), TestType(0), TestType(0.1)};
  CHECK(run(row, 1, 1.0, 10).mask == Mask{1, 0, 1});
  CHECK(run(std::vector<TestType>{2, 2, 2}, 1, 0.01, 10).mask ==
        Mask{1, 1, 1});  // ties stay together
}

TEMPLATE_TEST_CASE("top_p's set is never below the wanted mass and is a threshold's set", "",
                   double, float) {
  std::mt19937_64 random(11);
  std::exponential_distribution<double> weight(1.0);
  for (int round = 0; round < 200; ++round) {
    const std::size_t length = 1 + random() % 300;
    std::vector<TestType> row;
    for (std::size_t i = 0; i < length; ++i) {
      row.push_back(static_cast<TestType>(std::pow(weight(random), 4.0)));
    }
    const double p = 0.05 + 0.95 * static_cast<double>(random() % 1000) / 1000.0;
    const Kept<TestType> got = run(row, 1, p, 10);
    double sum = 0.0, kept = 0.0, least = 1e300, most_left = -1.0;
    for (std::size_t i = 0; i < length; ++i) {
      const double value = static_cast<double>(row[i]);
      sum += value;
      kept += got.mask[i] != 0 ? value : 0.0;
      (got.mask[i] != 0 ? least : most_left) =
          got.mask[i] != 0 ? std::min(least, value) : std::max(most_left, value);
    }
    CHECK(kept >= p * sum * (1.0 - 1e-12));
    CHECK(static_cast<double>(got.mass[0]) == Approx(kept).epsilon(1e-6));
    CHECK(least > most_left);
    // No set of a threshold one bisection width (max / 2^10) higher would have been enough.
    const double width = *std::max_element(row.begin(), row.end()) / 1024.0;
    double above = 0.0;
    for (const TestType value : row) {
      above += static_cast<double>(value) >= least + width ? static_cast<double>(value) : 0.0;
    }
    CHECK(above < p * sum);
  }
}

TEST_CASE("top_p takes no rows and no tokens") {
  CHECK(run(std::vector<double>{}, 2, 0.5, 10).mass == std::vector<double>{0.0, 0.0});
  Kept<double> got{.mask = {9, 9}, .mass = {}};
  top_p_cpu<double>({.rows = 0, .length = 2, .p = 0.5, .mask = got.mask.data()}, 1);
  CHECK(got.mask == Mask{0, 0});
}

TEST_CASE("top_p chooses lists of their own, of a length in memory") {
  // Two lists of two rows, 5 apart, lists 12 apart; three tokens count.
  const std::vector<double> weights = {8, 1, 1, 50, 7, 1, 8, 1, 50, 7, 7, 7,  //
                                       1, 1, 8, 50, 7, 1, 1, 8, 50, 7, 7, 7};
  const StepCounts counts{.context_len = 3};
  std::vector<std::int32_t> mask(8, -1);
  std::vector<double> mass(4, -1.0);
  top_p_cpu<double>({.rows = 2,
                     .length = 4,
                     .row_stride = 5,
                     .lists = 2,
                     .list_stride = 12,
                     .mask_stride = 4,
                     .counts = &counts,
                     .p = 0.8,
                     .weights = weights.data(),
                     .mask = mask.data(),
                     .mass = mass.data()},
                    1);
  CHECK(mask == std::vector<std::int32_t>{1, 1, 0, -1, 0, 0, 1, -1});
  CHECK(mass == std::vector<double>{8, 8, 8, 8});
}

}  // namespace versieve::kernels
