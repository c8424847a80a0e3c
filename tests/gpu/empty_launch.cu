#include "tests/gpu/empty_launch.h"

#include <algorithm>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"

namespace versieve::test {
namespace {

constexpr unsigned kThreads = 512;

__global__ void __launch_bounds__(kThreads) empty_kernel() {
  kernels::release_successors();
  kernels::wait_for_predecessors();
}

// A block has 8 KiB on its way for each 512 threads; four of them an SM.
constexpr int kWords = 4;  // of a thread, asked for at once

__global__ void __launch_bounds__(kThreads)
    read_kernel(const uint4* from, std::int64_t words, unsigned* sink) {
  kernels::release_successors();
  kernels::wait_for_predecessors();
  unsigned seen = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < words;
       i += kWords * step) {
    uint4 word[kWords] = {};
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      if (i + j * step < words) {
        word[j] = __ldcs(from + i + j * step);
      }
    }
#pragma unroll
    for (int j = 0; j < kWords; ++j) {
      seen |= word[j].x ^ word[j].y ^ word[j].z ^ word[j].w;
    }
  }
  if (seen == 0xFFFFFFFFU) {  // not of logits; so that the reading is not left out
    *sink = seen;
  }
}

}  // namespace

void launch_read(const void* from, std::int64_t bytes, unsigned* sink, cudaStream_t stream) {
  const std::int64_t words = bytes / 16;
  const std::int64_t blocks =
      std::clamp<std::int64_t>((words + kThreads * kWords - 1) / (kThreads * kWords), 1, 4 * 132);
  kernels::launch_dependent(
      {.grid = dim3(static_cast<unsigned>(blocks)), .threads = kThreads, .stream = stream},
      read_kernel, static_cast<const uint4*>(from), words, sink);
}

void launch_empty(unsigned blocks, unsigned cluster, cudaStream_t stream) {
  kernels::check(
      cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  kernels::launch_dependent(
      {.grid = dim3(blocks), .threads = kThreads, .cluster = cluster, .stream = stream},
      empty_kernel);
}

}  // namespace versieve::test
