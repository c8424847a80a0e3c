// linear on CUDA: agreement with the double product, and bits that do not depend on N.
#include <catch2/catch.hpp>
#include <cstring>

#include "kernels/cpu.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {
namespace {

using test::random_elements;

struct Sizes {
  std::int64_t n, k, m;
};

template <class T>
std::vector<T> run(Ops<T>& ops, const Sizes& s, const std::vector<T>& x, const OpsBuffer<T>& w,
                   const T* residual, bool swiglu = false) {
  const OpsBuffer<T> device_x(ops, x);
  OpsBuffer<T> y = test::poisoned<T>(ops, s.n * s.m);
  ops.linear({.n = s.n,
              .k = s.k,
              .m = s.m,
              .swiglu = swiglu,
              .x = device_x.data(),
              .w = w.data(),
              .residual = residual,
              .y = y.data()});
  return y.read();
}

// The double form; `residual` is not looked at under swiglu.
template <class T>
std::vector<double> reference(const Sizes& s, const std::vector<T>& x, const std::vector<T>& w,
                              const std::vector<T>& residual, bool swiglu = false) {
  const std::vector<double> wide_x = test::widen_all(x), wide_w = test::widen_all(w);
  const std::vector<double> wide_residual = test::widen_all(residual);
  std::vector<double> y(static_cast<std::size_t>(s.n * s.m));
  linear_cpu(LinearParams<double>{.n = s.n,
                                  .k = s.k,
                                  .m = s.m,
                                  .swiglu = swiglu,
                                  .x = wide_x.data(),
                                  .w = wide_w.data(),
                                  .residual = swiglu ? nullptr : wide_residual.data(),
                                  .y = y.data()},
             2);
  return y;
}

const Sizes kSizes[] = {{1, 1, 1},      {2, 7, 5},      {3, 8, 9},       {5, 64, 64},
                        {9, 72, 70},    {17, 100, 33},  {33, 520, 200},  {65, 264, 129},
                        {130, 256, 65}, {1, 2048, 512}, {64, 2048, 512}, {7, 1001, 63},
                        {9, 264, 8500}};

// A layer into the stream and the layer behind its norm, both with the norm folded in.
template <class T>
struct FoldedPair {
  std::vector<T> y, weighted, z;
  std::vector<SquareSum> squares;
};

template <class T>
struct FoldedWeights {
  OpsBuffer<T> first, norm, next;  // [M, K], [M], [P or 2 P, M]
  std::int64_t width;              // P
};

template <class T>
FoldedPair<T> run_folded(Ops<T>& ops, const Sizes& s, const std::vector<T>& x,
                         const std::vector<T>& residual, const FoldedWeights<T>& w, bool swiglu) {
  const OpsBuffer<T> device_x(ops, x), device_residual(ops, residual);
  const OpsBuffer<T> y = test::poisoned<T>(ops, s.n * s.m);
  const OpsBuffer<T> weighted = test::poisoned<T>(ops, s.n * s.m);
  const std::int64_t stride = s.m + 4;
  const OpsBuffer<T> copy = test::poisoned<T>(ops, s.n * stride);
  std::vector<T> want_copy = copy.read();
  const OpsBuffer<T> z = test::poisoned<T>(ops, s.n * w.width);
  const std::vector<SquareSum> nines(static_cast<std::size_t>(s.n), 9);
  const OpsBuffer<T, SquareSum> squares(ops, s.n), cleared(ops, nines);
  ops.linear(
      {.n = s.n,
       .k = s.k,
       .m = s.m,
       .x = device_x.data(),
       .w = w.first.data(),
       .residual = device_residual.data(),
       .y = y.data(),
       .y_copy = copy.data(),
       .y_copy_stride = stride,
       .norm = {
           .y_weight = w.norm.data(), .y_weighted = weighted.data(), .y_squares = squares.data()}});
  ops.linear({.n = s.n,
              .k = s.m,
              .m = w.width,
              .swiglu = swiglu,
              .x = weighted.data(),
              .w = w.next.data(),
              .y = z.data(),
              .norm = {.x_squares = squares.data(), .eps = 0.25, .cleared = cleared.data()}});
  CHECK(cleared.read() == std::vector<SquareSum>(nines.size()));
  const std::vector<T> rows = y.read(), got_copy = copy.read();
  for (std::int64_t n = 0; n < s.n; ++n) {
    std::copy_n(rows.begin() + n * s.m, s.m, want_copy.begin() + n * stride);
  }
  CHECK(std::memcmp(got_copy.data(), want_copy.data(), want_copy.size() * sizeof(T)) == 0);
  return {rows, weighted.read(), z.read(), squares.read()};
}

}  // namespace

TEMPLATE_TEST_CASE("CUDA linear agrees with the double product on odd sizes", "[linear]", float,
                   Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const Sizes& s : kSizes) {
    const auto x = random_elements<TestType>(s.n * s.k, 1);
    const auto w = random_elements<TestType>(s.m * s.k, 2);
    const auto residual = random_elements<TestType>(s.n * s.m, 3);
    const OpsBuffer<TestType> device_w(*ops, w), device_residual(*ops, residual);
    const auto y = run(*ops, s, x, device_w, device_residual.data());
    INFO("N " << s.n << " K " << s.k << " M " << s.m);
    CHECK(test::relative_error(test::widen_all(y), reference(s, x, w, residual)) <
          test::kTolerance<TestType>);
    const auto pair = random_elements<TestType>(2 * s.m * s.k, 9, 0.2);
    const OpsBuffer<TestType> device_pair(*ops, pair);
    const auto product = run<TestType>(*ops, s, x, device_pair, nullptr, true);
    CHECK(test::relative_error(test::widen_all(product), reference(s, x, pair, {}, true)) <
          4 * test::kTolerance<TestType>);
  }
}

// Small enough for a checker of races: each number of nodes that has a plan of its own, two slices
// of K and one, rows that fill their tile and rows that do not.
TEST_CASE("CUDA linear agrees with the double product in a few small cases", "[linear][race]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  for (const Sizes& s : {Sizes{1, 576, 192},
                         {13, 576, 192},
                         {32, 576, 192},
                         {50, 576, 192},
                         {100, 576, 192},
                         {50, 704, 132}}) {
    for (const bool swiglu : {false, true}) {
      INFO("N " << s.n << " K " << s.k << " M " << s.m << " swiglu " << swiglu);
      const auto x = random_elements<Bf16>(s.n * s.k, 41);
      const auto w = random_elements<Bf16>((swiglu ? 2 : 1) * s.m * s.k, 42, 0.2);
      const auto residual = random_elements<Bf16>(s.n * s.m, 43);
      const OpsBuffer<Bf16> device_w(*ops, w), device_residual(*ops, residual);
      const auto y =
          run<Bf16>(*ops, s, x, device_w, swiglu ? nullptr : device_residual.data(), swiglu);
      CHECK(test::relative_error(test::widen_all(y), reference(s, x, w, residual, swiglu)) <
            4 * test::kTolerance<Bf16>);
    }
  }
}

TEMPLATE_TEST_CASE("a row of CUDA linear has the same bits in a batch of any size", "[linear]",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const auto& [k, m] : {std::pair<std::int64_t, std::int64_t>{2048, 512},
                             {1000, 130},
                             {99, 40},
                             {512, 4096},
                             {2048, 96}}) {
    const std::int64_t most = 200;
    const auto x = random_elements<TestType>(most * k, 4);
    const OpsBuffer<TestType> w(*ops, random_elements<TestType>(2 * m * k, 5, 0.2));
    const auto want = run<TestType>(*ops, {most, k, m}, x, w, nullptr);
    const auto want_product = run<TestType>(*ops, {most, k, m}, x, w, nullptr, true);
    for (const std::int64_t count : {1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 33, 64, 65, 100, 128, 129}) {
      for (const std::int64_t first : {std::int64_t{0}, most - count}) {
        const std::vector<TestType> rows(x.begin() + first * k, x.begin() + (first + count) * k);
        const auto y = run<TestType>(*ops, {count, k, m}, rows, w, nullptr);
        INFO("K " << k << " M " << m << " N " << count << " first " << first);
        REQUIRE(std::memcmp(y.data(), want.data() + first * m, y.size() * sizeof(TestType)) == 0);
        const auto product = run<TestType>(*ops, {count, k, m}, rows, w, nullptr, true);
        REQUIRE(std::memcmp(product.data(), want_product.data() + first * m,
                            product.size() * sizeof(TestType)) == 0);
      }
    }
  }
}

TEST_CASE("CUDA linear adds a residual in place", "[linear]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  const Sizes s{10, 256, 128};
  const auto x = random_elements<Bf16>(s.n * s.k, 6);
  const auto residual = random_elements<Bf16>(s.n * s.m, 7);
  const OpsBuffer<Bf16> w(*ops, random_elements<Bf16>(s.m * s.k, 8));
  OpsBuffer<Bf16> in_place(*ops, residual);
  const auto apart = run(*ops, s, x, w, in_place.data());
  const OpsBuffer<Bf16> device_x(*ops, x);
  ops->linear({.n = s.n,
               .k = s.k,
               .m = s.m,
               .x = device_x.data(),
               .w = w.data(),
               .residual = in_place.data(),
               .y = in_place.data()});
  const auto y = in_place.read();
  CHECK(std::memcmp(y.data(), apart.data(), y.size() * sizeof(Bf16)) == 0);
}

// Each number against the one before it: squares and weighted rows of the y that was written, z of
// those weighted rows and squares.
TEMPLATE_TEST_CASE("CUDA linear folds norms as the double product does", "[linear]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const bool swiglu : {false, true}) {
    for (const Sizes& s : kSizes) {
      const std::int64_t width = s.m % 8 == 0 ? 136 : 67;
      const auto x = random_elements<TestType>(s.n * s.k, 21);
      const auto w = random_elements<TestType>(s.m * s.k, 22);
      const auto residual = random_elements<TestType>(s.n * s.m, 23, 20.0);
      const auto norm = random_elements<TestType>(s.m, 24);
      const auto next = random_elements<TestType>(2 * width * s.m, 25, 0.2);
      const FoldedWeights<TestType> weights{OpsBuffer<TestType>(*ops, w),
                                            OpsBuffer<TestType>(*ops, norm),
                                            OpsBuffer<TestType>(*ops, next), width};
      const FoldedPair<TestType> got = run_folded(*ops, s, x, residual, weights, swiglu);
      INFO("N " << s.n << " K " << s.k << " M " << s.m << " swiglu " << swiglu);
      const auto plain = run(*ops, s, x, weights.first, OpsBuffer<TestType>(*ops, residual).data());
      CHECK(std::memcmp(got.y.data(), plain.data(), plain.size() * sizeof(TestType)) == 0);
      const std::vector<double> y = test::widen_all(got.y), scale = test::widen_all(norm);
      std::vector<double> product(y.size());
      for (std::size_t n = 0; n < got.squares.size(); ++n) {
        const std::size_t m = static_cast<std::size_t>(s.m);
        double square = 0.0;
        for (std::size_t i = 0; i < m; ++i) {
          square += y[n * m + i] * y[n * m + i];
          product[n * m + i] = y[n * m + i] * scale[i];
        }
        CHECK(static_cast<double>(got.squares[n]) * kSquareSumUnit == Approx(square).epsilon(1e-6));
      }
      CHECK(test::relative_error(test::widen_all(got.weighted), product) <
            test::kTolerance<TestType>);
      const std::vector<double> wide_x = test::widen_all(got.weighted);
      const std::vector<double> wide_w = test::widen_all(next);
      std::vector<double> want(got.z.size());
      linear_cpu(LinearParams<double>{.n = s.n,
                                      .k = s.m,
                                      .m = width,
                                      .swiglu = swiglu,
                                      .x = wide_x.data(),
                                      .w = wide_w.data(),
                                      .y = want.data(),
                                      .norm = {.x_squares = got.squares.data(), .eps = 0.25}},
                 2);
      CHECK(test::relative_error(test::widen_all(got.z), want) < 4 * test::kTolerance<TestType>);
    }
  }
}

TEMPLATE_TEST_CASE("a row behind a folded norm has the same bits in a batch of any size",
                   "[linear]", float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  const std::int64_t most = 200;
  for (const auto& [k, m] : {std::pair<std::int64_t, std::int64_t>{512, 2048}, {200, 264}}) {
    const auto x = random_elements<TestType>(most * k, 31);
    const auto residual = random_elements<TestType>(most * m, 32);
    const FoldedWeights<TestType> weights{
        OpsBuffer<TestType>(*ops, random_elements<TestType>(m * k, 33)),
        OpsBuffer<TestType>(*ops, random_elements<TestType>(m, 34)),
        OpsBuffer<TestType>(*ops, random_elements<TestType>(2 * 136 * m, 35, 0.2)), 136};
    const auto want = run_folded(*ops, {most, k, m}, x, residual, weights, true);
    for (const std::int64_t count : {1, 5, 8, 9, 16, 17, 64, 65, 129}) {
      const std::int64_t first = most - count;
      const auto got =
          run_folded<TestType>(*ops, {count, k, m}, {x.begin() + first * k, x.end()},
                               {residual.begin() + first * m, residual.end()}, weights, true);
      INFO("K " << k << " M " << m << " N " << count);
      CHECK(std::equal(got.squares.begin(), got.squares.end(), want.squares.end() - count));
      REQUIRE(std::memcmp(got.z.data(), want.z.data() + first * 136,
                          got.z.size() * sizeof(TestType)) == 0);
    }
  }
}

}  // namespace versieve::kernels
