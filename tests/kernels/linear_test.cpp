#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kernels/cpu.h"
#include "kernels/swiglu/activation.h"
#include "tests/kernels/random_tensor.h"

namespace versieve::kernels {
namespace {

using test::random_tensor;

struct Sizes {
  std::int64_t n, k, m;
};

template <class T>
std::vector<T> run(const Sizes& s, const std::vector<T>& x, const std::vector<T>& w,
                   const T* residual, int threads) {
  std::vector<T> y(static_cast<std::size_t>(s.n * s.m), T(-777));  // poisoned
  linear_cpu(LinearParams<T>{.n = s.n,
                             .k = s.k,
                             .m = s.m,
                             .x = x.data(),
                             .w = w.data(),
                             .residual = residual,
                             .y = y.data()},
             threads);
  return y;
}

template <class T>
std::vector<double> brute_force(const Sizes& s, const std::vector<T>& x, const std::vector<T>& w) {
  std::vector<double> y(static_cast<std::size_t>(s.n * s.m));
  for (std::int64_t n = 0; n < s.n; ++n) {
    for (std::int64_t m = 0; m < s.m; ++m) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        sum += static_cast<double>(x[static_cast<std::size_t>(n * s.k + k)]) *
               static_cast<double>(w[static_cast<std::size_t>(m * s.k + k)]);
      }
      y[static_cast<std::size_t>(n * s.m + m)] = sum;
    }
  }
  return y;
}

const Sizes kSizes[] = {{1, 1, 1},  {1, 8, 8},    {2, 7, 5},    {3, 9, 25},    {5, 64, 24},
                        {4, 31, 3}, {7, 129, 50}, {33, 96, 49}, {13, 250, 101}};

}  // namespace

TEMPLATE_TEST_CASE("linear agrees with a plain double product on odd sizes", "[linear]", float,
                   double) {
  for (const Sizes& s : kSizes) {
    const auto x = random_tensor<TestType>(s.n * s.k, 1);
    const auto w = random_tensor<TestType>(s.m * s.k, 2);
    const std::vector<TestType> y = run<TestType>(s, x, w, nullptr, 2);
    INFO("N " << s.n << " K " << s.k << " M " << s.m);
    CHECK(test::relative_error(y, brute_force(s, x, w)) < (sizeof(TestType) == 4 ? 1e-6 : 1e-14));
  }
}

TEST_CASE("linear adds the residual, also in place", "[linear]") {
  const Sizes s{3, 17, 11};
  const auto x = random_tensor<float>(s.n * s.k, 3);
  const auto w = random_tensor<float>(s.m * s.k, 4);
  const auto residual = random_tensor<float>(s.n * s.m, 5);
  const std::vector<float> plain = run<float>(s, x, w, nullptr, 1);
  std::vector<float> in_place = residual;
  linear_cpu(LinearParams<float>{.n = s.n,
                                 .k = s.k,
                                 .m = s.m,
                                 .x = x.data(),
                                 .w = w.data(),
                                 .residual = in_place.data(),
                                 .y = in_place.data()},
             1);
  CHECK(in_place == run<float>(s, x, w, residual.data(), 1));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(in_place[i] == residual[i] + plain[i]);
  }
}

TEMPLATE_TEST_CASE("linear writes its rows once more, apart, when asked", "[linear]", float,
                   double) {
  const Sizes s{5, 19, 53};  // more than two panels
  const std::int64_t stride = 3 * s.m;
  const auto x = random_tensor<TestType>(s.n * s.k, 21);
  const auto w = random_tensor<TestType>(s.m * s.k, 22);
  const auto residual = random_tensor<TestType>(s.n * s.m, 23);
  std::vector<TestType> y = residual;  // in place, as a residual stream
  std::vector<TestType> copy(static_cast<std::size_t>(s.n * stride), TestType(-777));
  linear_cpu(LinearParams<TestType>{.n = s.n,
                                    .k = s.k,
                                    .m = s.m,
                                    .x = x.data(),
                                    .w = w.data(),
                                    .residual = y.data(),
                                    .y = y.data(),
                                    .y_copy = copy.data(),
                                    .y_copy_stride = stride},
             2);
  CHECK(y == run(s, x, w, residual.data(), 1));
  for (std::int64_t n = 0; n < s.n; ++n) {
    CHECK(std::equal(y.begin() + n * s.m, y.begin() + (n + 1) * s.m, copy.begin() + n * stride));
    CHECK(copy[static_cast<std::size_t>(n * stride + s.m)] == TestType(-777));
  }
}

TEMPLATE_TEST_CASE("linear with swiglu is the product of its halves, bit for bit", "[linear]",
                   float, double) {
  const Sizes s{5, 33, 50};
  const auto x = random_tensor<TestType>(s.n * s.k, 10);
  const auto gate_rows = random_tensor<TestType>(s.m * s.k, 11);
  const auto up_rows = random_tensor<TestType>(s.m * s.k, 12);
  std::vector<TestType> rows = gate_rows;
  rows.insert(rows.end(), up_rows.begin(), up_rows.end());
  std::vector<TestType> y(static_cast<std::size_t>(s.n * s.m), TestType(-777));
  linear_cpu(LinearParams<TestType>{.n = s.n,
                                    .k = s.k,
                                    .m = s.m,
                                    .swiglu = true,
                                    .x = x.data(),
                                    .w = rows.data(),
                                    .y = y.data()},
             2);
  std::vector<TestType> want = run<TestType>(s, x, gate_rows, nullptr, 1);
  const std::vector<TestType> up = run<TestType>(s, x, up_rows, nullptr, 1);
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = want[i] / (TestType{1} + std::exp(-want[i])) * up[i];
  }
  CHECK(test::relative_error(y, std::vector<double>(want.begin(), want.end())) < 1e-6);
  swiglu_cpu(SwigluParams<TestType>{.count = s.n * s.m,
                                    .gate = run<TestType>(s, x, gate_rows, nullptr, 1).data(),
                                    .up = up.data(),
                                    .y = want.data()},
             1);
  CHECK(y == want);
}

TEMPLATE_TEST_CASE("a row of linear has the same bits in a batch of any size", "[linear]", float,
                   double) {
  for (const std::int64_t k : {5, 64, 203}) {
    const Sizes all{23, k, 77};
    const auto x = random_tensor<TestType>(all.n * k, 6);
    const auto w = random_tensor<TestType>(all.m * k, 7);
    const std::vector<TestType> want = run<TestType>(all, x, w, nullptr, 1);
    for (std::int64_t count = 1; count <= all.n; ++count) {
      for (std::int64_t first = 0; first + count <= all.n; first += 3) {
        const std::vector<TestType> rows(x.begin() + first * k, x.begin() + (first + count) * k);
        const auto y = run<TestType>({count, k, all.m}, rows, w, nullptr, 2);
        REQUIRE(std::memcmp(y.data(), want.data() + first * all.m, y.size() * sizeof(TestType)) ==
                0);
      }
    }
  }
}

TEST_CASE("linear's vector code has the bits of eight lanes added in the stated order",
          "[linear]") {
  const std::int64_t k = 37;
  const auto x = random_tensor<float>(k, 8);
  const auto w = random_tensor<float>(k, 9);
  float lane[8] = {};
  for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
    lane[i % 8] = std::fma(x[i], w[i], lane[i % 8]);
  }
  const float want =
      ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  CHECK(run<float>({1, k, 1}, x, w, nullptr, 1)[0] == want);
}

// Layers with a norm folded into them against the norm between them, written out in double.
TEMPLATE_TEST_CASE("a norm folded into the layers around it divides by the RMS", "[linear]", float,
                   double) {
  for (const bool swiglu : {false, true}) {
    for (const Sizes& s : kSizes) {  // x [N, K] -> y [N, M] -> z [N, P]
      const std::int64_t width = 19;
      const auto x = random_tensor<TestType>(s.n * s.k, 11);
      const auto w = random_tensor<TestType>(s.m * s.k, 12);
      const auto residual = random_tensor<TestType>(s.n * s.m, 13, 30.0);
      const auto norm = random_tensor<TestType>(s.m, 14);
      const auto next = random_tensor<TestType>(2 * width * s.m, 15);
      const std::size_t outputs = static_cast<std::size_t>(s.n * s.m);
      std::vector<TestType> y(outputs), weighted(outputs, TestType(-777));
      std::vector<TestType> z(static_cast<std::size_t>(s.n * width));
      std::vector<SquareSum> squares(static_cast<std::size_t>(s.n)), cleared(squares.size(), 99);
      linear_cpu(LinearParams<TestType>{.n = s.n,
                                        .k = s.k,
                                        .m = s.m,
                                        .x = x.data(),
                                        .w = w.data(),
                                        .residual = residual.data(),
                                        .y = y.data(),
                                        .norm = {.y_weight = norm.data(),
                                                 .y_weighted = weighted.data(),
                                                 .y_squares = squares.data()}},
                 2);
      linear_cpu(
          LinearParams<TestType>{
              .n = s.n,
              .k = s.m,
              .m = width,
              .swiglu = swiglu,
              .x = weighted.data(),
              .w = next.data(),
              .y = z.data(),
              .norm = {.x_squares = squares.data(), .eps = 0.25, .cleared = cleared.data()}},
          2);
      CHECK(y == run<TestType>(s, x, w, residual.data(), 1));
      CHECK(cleared == std::vector<SquareSum>(cleared.size()));
      std::vector<double> normed(outputs);
      for (std::size_t n = 0; n < squares.size(); ++n) {
        const std::size_t m = static_cast<std::size_t>(s.m);
        double square = 0.0;
        for (std::size_t i = 0; i < m; ++i) {
          square += std::pow(static_cast<double>(y[n * m + i]), 2);
        }
        for (std::size_t i = 0; i < m; ++i) {
          normed[n * m + i] = static_cast<double>(y[n * m + i]) * static_cast<double>(norm[i]) /
                              std::sqrt(square / static_cast<double>(m) + 0.25);
        }
      }
      const std::vector<double> wide(next.begin(), next.end());
      const std::vector<double> all = brute_force<double>({s.n, s.m, 2 * width}, normed, wide);
      std::vector<double> want(z.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        const std::size_t at = i / width * 2 * width + i % width;
        want[i] = swiglu ? silu_product(all[at], all[at + width]) : all[at];
      }
      INFO("N " << s.n << " K " << s.k << " M " << s.m << " swiglu " << swiglu);
      CHECK(test::relative_error(z, want) < (sizeof(TestType) == 4 ? 3e-6 : 1e-9));
    }
  }
}

}  // namespace versieve::kernels
