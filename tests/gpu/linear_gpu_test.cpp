// linear on CUDA: agreement with the double product, bits that do not depend on N, and its speed.
#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "kernels/common/cuda_check.h"
#include "kernels/linear/cpu.h"
#include "tests/gpu/gpu_ops.h"

namespace versieve::kernels {
namespace {

using test::random_elements;

struct Sizes {
  std::int64_t n, k, m;
};

template <class T>
std::vector<T> run(Ops<T>& ops, const Sizes& s, const std::vector<T>& x, const OpsBuffer<T>& w,
                   const T* residual) {
  const OpsBuffer<T> device_x(ops, x);
  OpsBuffer<T> y = test::poisoned<T>(ops, s.n * s.m);
  ops.linear({.n = s.n,
              .k = s.k,
              .m = s.m,
              .x = device_x.data(),
              .w = w.data(),
              .residual = residual,
              .y = y.data()});
  return y.read();
}

template <class T>
std::vector<double> reference(const Sizes& s, const std::vector<T>& x, const std::vector<T>& w,
                              const std::vector<T>& residual) {
  const std::vector<double> wide_x = test::widen_all(x), wide_w = test::widen_all(w);
  const std::vector<double> wide_residual = test::widen_all(residual);
  std::vector<double> y(static_cast<std::size_t>(s.n * s.m));
  linear_cpu(LinearParams<double>{.n = s.n,
                                  .k = s.k,
                                  .m = s.m,
                                  .x = wide_x.data(),
                                  .w = wide_w.data(),
                                  .residual = wide_residual.data(),
                                  .y = y.data()},
             2);
  return y;
}

const Sizes kSizes[] = {{1, 1, 1},      {2, 7, 5},      {3, 8, 9},       {5, 64, 64},
                        {9, 72, 70},    {17, 100, 33},  {33, 520, 200},  {65, 264, 129},
                        {130, 256, 65}, {1, 2048, 512}, {64, 2048, 512}, {7, 1001, 63}};

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
  }
}

TEMPLATE_TEST_CASE("a row of CUDA linear has the same bits in a batch of any size", "[linear]",
                   float, Bf16) {
  const auto ops = test::try_gpu_ops<TestType>();
  if (!ops) {
    return;
  }
  for (const auto& [k, m] :
       {std::pair<std::int64_t, std::int64_t>{2048, 512}, {1000, 130}, {99, 40}, {512, 8192}}) {
    const std::int64_t most = 200;
    const auto x = random_elements<TestType>(most * k, 4);
    const OpsBuffer<TestType> w(*ops, random_elements<TestType>(m * k, 5));
    const auto want = run<TestType>(*ops, {most, k, m}, x, w, nullptr);
    for (const std::int64_t count : {1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 33, 64, 65, 100, 128, 129}) {
      for (const std::int64_t first : {std::int64_t{0}, most - count}) {
        const std::vector<TestType> rows(x.begin() + first * k, x.begin() + (first + count) * k);
        const auto y = run<TestType>(*ops, {count, k, m}, rows, w, nullptr);
        INFO("K " << k << " M " << m << " N " << count << " first " << first);
        REQUIRE(std::memcmp(y.data(), want.data() + first * m, y.size() * sizeof(TestType)) == 0);
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

namespace {

// Mean time of one call, from a graph of calls that walk over more weights than the second-level
// cache holds.
double call_us(Ops<Bf16>& ops, const Sizes& s) {
  constexpr std::int64_t kWeightBytes = 400 << 20;
  const std::int64_t copies = std::max<std::int64_t>(2, kWeightBytes / (s.k * s.m * 2));
  const OpsBuffer<Bf16> w(ops, copies * s.k * s.m), x(ops, s.n * s.k), y(ops, s.n * s.m);
  check(cudaMemset(w.data(), 0, static_cast<std::size_t>(w.count()) * sizeof(Bf16)));
  check(cudaMemset(x.data(), 0, static_cast<std::size_t>(x.count()) * sizeof(Bf16)));
  check(cudaDeviceSynchronize());
  cudaStream_t stream = static_cast<cudaStream_t>(stream_of(ops));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (std::int64_t i = 0; i < copies; ++i) {
    ops.linear({.n = s.n,
                .k = s.k,
                .m = s.m,
                .x = x.data(),
                .w = w.data() + i * s.k * s.m,
                .y = y.data()});
  }
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  float best_ms = 1e9F;
  for (int repetition = 0; repetition < 7; ++repetition) {
    float ms = 0.0F;
    check(cudaEventRecord(begin, stream));
    check(cudaGraphLaunch(executable, stream));
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&ms, begin, end));
    best_ms = std::min(best_ms, ms);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
  return 1e3 * static_cast<double>(best_ms) / static_cast<double>(copies);
}

}  // namespace

// Run on request: test_gpu_ops "[bench]". The bound is the design's aim: 60 % of 4.6 TB/s.
TEST_CASE("CUDA linear streams the MLP weights of nsa-1b at a third of memory bandwidth",
          "[.][bench]") {
  const auto ops = test::try_gpu_ops<Bf16>();
  if (!ops) {
    return;
  }
  std::printf("linear bf16\n%8s %8s %5s %10s %10s %10s\n", "K", "M", "N", "us", "GB/s", "TFLOP/s");
  for (const auto& [k, m] : {std::pair<std::int64_t, std::int64_t>{2048, 512},
                             {2048, 2048},
                             {2048, 8192},
                             {8192, 2048},
                             {2048, 16384},
                             {2048, 128256}}) {
    for (const std::int64_t n : {1, 8, 16, 32, 64, 128, 256}) {
      const double us = call_us(*ops, {n, k, m});
      const double gb_s = static_cast<double>(k * m * 2) / us * 1e-3;
      std::printf("%8lld %8lld %5lld %10.2f %10.0f %10.1f\n", static_cast<long long>(k),
                  static_cast<long long>(m), static_cast<long long>(n), us, gb_s,
                  2.0 * static_cast<double>(n * k * m) / us * 1e-6);
      if (n <= 64 && (m == 8192 || k == 8192)) {
        CHECK(gb_s > 0.3 * 4600.0);
      }
    }
  }
}

}  // namespace versieve::kernels
