#include "tests/gpu/empty_launch.h"

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"

namespace versieve::test {
namespace {

constexpr unsigned kThreads = 512;

__global__ void __launch_bounds__(kThreads) empty_kernel() {
  kernels::release_successors();
  kernels::wait_for_predecessors();
}

}  // namespace

void launch_empty(unsigned blocks, unsigned cluster, cudaStream_t stream) {
  kernels::check(
      cudaFuncSetAttribute(empty_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  kernels::launch_dependent(
      {.grid = dim3(blocks), .threads = kThreads, .cluster = cluster, .stream = stream},
      empty_kernel);
}

}  // namespace versieve::test
