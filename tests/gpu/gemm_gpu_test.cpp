// linear of many rows on CUDA (kernels/linear/gemm.cu): the bits that rows have alone, whatever the
// call holds besides, and agreement with the double product.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "kernels/cpu.h"
#include "model/launches/linear.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {
namespace {

using test::random_elements;

struct Layer {
  std::int64_t k, m;
  bool swiglu,
      into_stream;  // into_stream: residual, second y and the next norm; else a norm before
};

// A layer's weights and its rows' inputs on the device.
struct Inputs {
  OpsBuffer<Bf16> x, w, residual, norm;
  OpsBuffer<Bf16, SquareSum> x_squares;
};

// Random elements, a block of them again and again.
std::vector<Bf16> cycled(std::int64_t count, std::uint32_t seed, double scale) {
  const std::vector<Bf16> block = random_elements<Bf16>((1 << 20) - 3, seed, scale);
  std::vector<Bf16> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = block[i % block.size()];
  }
  return all;
}

Inputs make_inputs(Ops<Bf16>& ops, const Layer& layer, std::int64_t n) {
  std::vector<SquareSum> squares;
  for (std::int64_t i = 0; i < n; ++i) {
    squares.push_back(static_cast<SquareSum>(1 + i % 7) * static_cast<SquareSum>(layer.k) << 29);
  }
  return {.x = {ops, cycled(n * layer.k, 51, 1.0)},
          .w = {ops, cycled((layer.swiglu ? 2 : 1) * layer.m * layer.k, 52, 0.05)},
          .residual = {ops, cycled(n * layer.m, 53, 1.0)},
          .norm = {ops, random_elements<Bf16>(layer.m, 54)},
          .x_squares = {ops, squares}};
}

struct Outputs {
  std::vector<Bf16> y, copy, weighted;
  std::vector<SquareSum> squares, cleared;
};

// Rows [first, first + n) of the layer in one call; y_copy in rows of 8 more elements.
Outputs run_rows(Ops<Bf16>& ops, const Layer& layer, const Inputs& in, std::int64_t first,
                 std::int64_t n) {
  const std::int64_t stride = layer.m + 8;
  const OpsBuffer<Bf16> y = test::poisoned<Bf16>(ops, n * layer.m);
  const OpsBuffer<Bf16> copy = test::poisoned<Bf16>(ops, n * stride);
  const OpsBuffer<Bf16> weighted = test::poisoned<Bf16>(ops, n * layer.m);
  const std::vector<SquareSum> nines(static_cast<std::size_t>(n), 9);
  const OpsBuffer<Bf16, SquareSum> squares(ops, std::vector<SquareSum>(nines.size()));
  const OpsBuffer<Bf16, SquareSum> cleared(ops, nines);
  LinearParams<Bf16> p{.n = n,
                       .k = layer.k,
                       .m = layer.m,
                       .swiglu = layer.swiglu,
                       .x = in.x.data() + first * layer.k,
                       .w = in.w.data(),
                       .y = y.data()};
  if (layer.into_stream) {
    p.residual = in.residual.data() + first * layer.m;
    p.y_copy = copy.data();
    p.y_copy_stride = stride;
    p.norm = {
        .y_weight = in.norm.data(), .y_weighted = weighted.data(), .y_squares = squares.data()};
  } else {
    p.norm = {.x_squares = in.x_squares.data() + first, .eps = 0.25, .cleared = cleared.data()};
  }
  ops.linear(p);
  return {y.read(), copy.read(), weighted.read(), squares.read(), cleared.read()};
}

template <class E>
bool same_rows(const std::vector<E>& got, std::int64_t row, const std::vector<E>& alone) {
  const std::size_t size = alone.size();
  return std::memcmp(got.data() + static_cast<std::size_t>(row) * size, alone.data(),
                     size * sizeof(E)) == 0;
}

// Some rows of a call of n, each against a call of its own.
void check_rows(Ops<Bf16>& ops, const Layer& layer, const Inputs& in, std::int64_t n) {
  INFO("K " << layer.k << " M " << layer.m << " swiglu " << layer.swiglu << " into the stream "
            << layer.into_stream << " N " << n);
  REQUIRE(linear_gemm_cut(n, layer.k, layer.m, layer.swiglu, layer.into_stream).nodes > 0);
  const Outputs all = run_rows(ops, layer, in, 0, n);
  std::mt19937 random(static_cast<unsigned>(n + layer.k));
  for (int i = 0; i < 12; ++i) {
    const std::int64_t row = i == 0 ? 0 : i == 1 ? n - 1 : static_cast<std::int64_t>(random()) % n;
    CAPTURE(row);
    const Outputs alone = run_rows(ops, layer, in, row, 1);
    REQUIRE(same_rows(all.y, row, alone.y));
    REQUIRE(same_rows(all.copy, row, alone.copy));
    REQUIRE(same_rows(all.weighted, row, alone.weighted));
    REQUIRE(all.squares[static_cast<std::size_t>(row)] == alone.squares[0]);
    REQUIRE(all.cleared[static_cast<std::size_t>(row)] == alone.cleared[0]);
  }
}

// y against the double product of the first rows and columns.
void check_products(const Layer& layer, const Inputs& in, std::int64_t rows,
                    const std::vector<Bf16>& y) {
  const auto first_rows = [rows](std::vector<Bf16> all, std::int64_t width) {
    all.resize(static_cast<std::size_t>(rows * width));
    return test::widen_all(all);
  };
  const std::vector<double> x = first_rows(in.x.read(), layer.k);
  const std::vector<double> w = test::widen_all(in.w.read());
  const std::vector<double> residual = first_rows(in.residual.read(), layer.m);
  const std::vector<SquareSum> squares = in.x_squares.read();
  std::vector<double> want(static_cast<std::size_t>(rows * layer.m));
  LinearParams<double> p{.n = rows,
                         .k = layer.k,
                         .m = layer.m,
                         .swiglu = layer.swiglu,
                         .x = x.data(),
                         .w = w.data(),
                         .y = want.data()};
  if (layer.into_stream) {
    p.residual = residual.data();
  } else {
    p.norm = {.x_squares = squares.data(), .eps = 0.25};
  }
  linear_cpu(p, 2);
  std::vector<double> got = test::widen_all(y);
  got.resize(want.size());
  CHECK(test::relative_error(got, want) < 4 * test::kTolerance<Bf16>);
}

}  // namespace

// Each way of cutting: tiles of 64, 128 and 192 nodes, pairs either way, one, two and four slices,
// slices in a walk and shared out; rows, nodes and K that do not fill their tiles.
TEST_CASE("a row of CUDA linear has its bits among thousands of others", "[linear][gemm]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  const std::int64_t most = 4096;
  for (const Layer& layer : {Layer{2048, 3168, false, false},
                             {2048, 2048, false, true},
                             {2048, 8192, true, false},
                             {8192, 2048, false, true},
                             {4096, 4096, false, true},
                             {4096, 8192, false, true},
                             {4104, 5000, false, true},
                             {2056, 2744, true, false}}) {
    const Inputs in = make_inputs(*ops, layer, most);
    for (const std::int64_t n : {64, 65, 100, 128, 129, 192, 256, 300, 384, 512, 700, 1024, 4096}) {
      if (linear_gemm_cut(n, layer.k, layer.m, layer.swiglu, layer.into_stream).nodes > 0) {
        check_rows(*ops, layer, in, n);
      }
    }
    check_products(layer, in, 3, run_rows(*ops, layer, in, 0, 200).y);
  }
}

// Small enough for a checker of races: two tiles a block, slices that are shared out, swiglu.
TEST_CASE("CUDA linear of many rows agrees with the double product in small cases",
          "[linear][gemm][race]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  for (const auto& [layer, n] : {std::pair<Layer, std::int64_t>{{512, 8200, false, false}, 300},
                                 {{1032, 4096, false, true}, 130},
                                 {{2048, 2048, false, true}, 140},
                                 {{640, 3280, true, false}, 200}}) {
    INFO("K " << layer.k << " M " << layer.m << " N " << n << " swiglu " << layer.swiglu);
    REQUIRE(linear_gemm_cut(n, layer.k, layer.m, layer.swiglu, layer.into_stream).nodes > 0);
    const Inputs in = make_inputs(*ops, layer, n);
    check_products(layer, in, 2, run_rows(*ops, layer, in, 0, n).y);
  }
}

}  // namespace versieve::kernels
