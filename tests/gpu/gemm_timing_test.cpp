// Speed of linear with many rows beside cuBLASLt in the same process, bf16. Run on request:
// test_gpu_ops "[bench]". Calls of a graph walk over more weights than the second-level cache
// holds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "kernels/launch.h"
#include "model/launches/linear.h"
#include "tests/gpu/cublaslt_peer.h"
#include "tests/gpu/gpu_ops.h"
#include "tests/gpu/graph_timer.h"

namespace versieve::kernels {
namespace {

enum class End { kPlain, kScaled, kIntoStream };  // kScaled: behind a folded norm

struct Matrix {
  const char* name;
  std::int64_t k, m;
  bool swiglu;
  End end;
};

const Matrix kMatrices[] = {{"q|k|v|gate", 2048, 3168, false, End::kScaled},
                            {"output", 2048, 2048, false, End::kIntoStream},
                            {"gate|up", 2048, 8192, true, End::kScaled},
                            {"down", 8192, 2048, false, End::kIntoStream},
                            {"head", 2048, 128256, false, End::kScaled},
                            {"4096x8192", 4096, 8192, false, End::kPlain}};
constexpr std::int64_t kMostRows = 4096;

// Memory of all calls: weights of the largest matrix, rows of the widest.
struct Buffers {
  OpsBuffer<Bf16> w, x, y, stream, weighted, norm;
  OpsBuffer<Bf16, SquareSum> squares, x_squares;
};

OpsBuffer<Bf16> cycled_buffer(Ops<Bf16>& ops, std::int64_t count, double scale) {
  constexpr std::int64_t kBlock = 1 << 22;
  const std::vector<Bf16> block = test::random_elements<Bf16>(kBlock, 61, scale);
  OpsBuffer<Bf16> buffer(ops, count);
  for (std::int64_t at = 0; at < count; at += kBlock) {
    ops.upload(buffer.data() + at, block.data(),
               static_cast<std::size_t>(std::min(kBlock, count - at)) * sizeof(Bf16));
  }
  return buffer;
}

Buffers make_buffers(Ops<Bf16>& ops) {
  const std::vector<SquareSum> ones(kMostRows, SquareSum{2048} << 30);
  return {.w = cycled_buffer(ops, std::int64_t{2048} * 128256, 0.02),
          .x = cycled_buffer(ops, kMostRows * 8192, 1.0),
          .y = {ops, kMostRows * 128256},
          .stream = cycled_buffer(ops, kMostRows * 2048, 1.0),
          .weighted = {ops, kMostRows * 2048},
          .norm = cycled_buffer(ops, 2048, 1.0),
          .squares = {ops, std::vector<SquareSum>(kMostRows)},
          .x_squares = {ops, ones}};
}

LinearParams<Bf16> call_of(const Matrix& matrix, const Buffers& b, std::int64_t n,
                           std::int64_t copy) {
  LinearParams<Bf16> p{.n = n,
                       .k = matrix.k,
                       .m = matrix.m,
                       .swiglu = matrix.swiglu,
                       .x = b.x.data(),
                       .w = b.w.data() + copy * matrix.k * matrix.m * (matrix.swiglu ? 2 : 1),
                       .y = b.y.data()};
  if (matrix.end == End::kIntoStream) {
    p.residual = b.stream.data();
    p.y = b.stream.data();
    p.norm = {
        .y_weight = b.norm.data(), .y_weighted = b.weighted.data(), .y_squares = b.squares.data()};
  } else if (matrix.end == End::kScaled) {
    p.norm = {.x_squares = b.x_squares.data(), .eps = 1e-5};
  }
  return p;
}

struct PeerTimes {
  double first = 0.0, best = 0.0;  // of the heuristic's first choice, of its eight
};

PeerTimes peer_us(testing::CublasLtPeer* peer, testing::GraphTimer& timer, const Matrix& matrix,
                  const Buffers& b, std::int64_t n, std::int64_t copies) {
  PeerTimes times;
  const std::int64_t rows = matrix.m * (matrix.swiglu ? 2 : 1);
  for (int rank = 0; peer != nullptr && rank < 8; ++rank) {
    if (!peer->multiply(n, matrix.k, rows, b.x.data(), b.w.data(), b.y.data(), rank, nullptr)) {
      break;
    }
    check(cudaDeviceSynchronize());
    std::int64_t call = 0;
    const double us = timer.us(static_cast<int>(copies), [&](cudaStream_t stream) {
      peer->multiply(n, matrix.k, rows, b.x.data(), b.w.data() + call++ % copies * matrix.k * rows,
                     b.y.data(), rank, stream);
    });
    times.first = rank == 0 ? us : times.first;
    times.best = rank == 0 ? us : std::min(times.best, us);
  }
  return times;
}

}  // namespace

TEST_CASE("CUDA linear of many rows beside cuBLASLt", "[.][bench]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  const auto peer = testing::try_cublaslt_peer();
  const Buffers buffers = make_buffers(*ops);
  testing::GraphTimer timer;
  std::printf("%-10s %5s %9s %7s %9s %9s %8s %8s\n", "matrix", "N", "us", "Tflop/s", "Lt us",
              "Lt best", "of Lt", "of best");
  for (const Matrix& matrix : kMatrices) {
    for (const std::int64_t n : {64, 128, 256, 512, 1024, 2048, 4096}) {
      const double flops =
          2.0 * static_cast<double>(n * matrix.k * matrix.m) * (matrix.swiglu ? 2.0 : 1.0);
      const std::int64_t fit = buffers.w.count() / (matrix.k * matrix.m * (matrix.swiglu ? 2 : 1));
      const std::int64_t copies = std::clamp<std::int64_t>(
          static_cast<std::int64_t>(1.2e12 / flops), 1, std::min<std::int64_t>(fit, 24));
      const PeerTimes lt = peer_us(peer.get(), timer, matrix, buffers, n, copies);
      std::int64_t call = 0;
      const double us = timer.us(static_cast<int>(copies), [&](cudaStream_t stream) {
        launch_linear(call_of(matrix, buffers, n, call++ % copies), {.stream = stream});
      });
      std::printf("%-10s %5lld %9.2f %7.0f %9.2f %9.2f %7.0f%% %7.0f%%\n", matrix.name,
                  static_cast<long long>(n), us, flops / us * 1e-6, lt.first, lt.best,
                  100.0 * lt.first / us, 100.0 * lt.best / us);
    }
  }
}

}  // namespace versieve::kernels
