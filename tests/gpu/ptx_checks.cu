#include "tests/gpu/ptx_checks.h"

#include <cuda_runtime.h>

#define VERSIEVE_DEVICE_ASSERTS  // here they are on in every build
#include "kernels/common/dependent_launch.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/packets.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::test {
namespace {

namespace ptx = versieve::kernels;

constexpr unsigned kThreads = 32;
constexpr unsigned kRounds = 1U << 18;

// Two blocks of a cluster; failures[0] counts what is not as it should be.
__global__ void __launch_bounds__(kThreads)
    ptx_kernel(PtxUse use, uint2* packets, unsigned* failures) {
  __shared__ __align__(16) std::uint64_t barrier[2];
  __shared__ __align__(16) float pushed[4];
  const std::uint32_t at = ptx::shared_address(barrier);
  const int rank = ptx::cluster_rank();
  if (threadIdx.x == 0) {
    ptx::barrier_init(at + (use == PtxUse::kCrookedBarrier ? 4U : 0U), 1);
    ptx::publish_barriers();
    ptx::store_16(ptx::shared_address(pushed) + (use == PtxUse::kCrookedStore ? 8U : 0U), uint4{});
  }
  ptx::cluster_sync();
  if (threadIdx.x == 0) {
    // Each block pushes its rank + 1 to the other one.
    ptx::barrier_expect(at, 4);
    const int other = use == PtxUse::kForeignBlock ? 2 : 1 - rank;
    ptx::push_float(ptx::address_in_block(ptx::shared_address(pushed), other),
                    static_cast<float>(rank + 1), ptx::address_in_block(at, other));
    ptx::barrier_wait(at, use == PtxUse::kWrongParity ? 2 : 0);
    if (ptx::load_4(ptx::shared_address(pushed)) != static_cast<float>(2 - rank)) {
      atomicAdd(failures, 1U);
    }
    if (use == PtxUse::kCrookedPackets) {
      ptx::send_packets(packets + 1, 1U, 2U, 3U);
    }
    // One block sends packets whose payload says the epoch, the other looks at them all the while.
    for (unsigned epoch = 1; rank == 0 && epoch <= kRounds; ++epoch) {
      ptx::send_packets(packets, ~epoch, epoch * 3U, epoch);
    }
    for (bool last = false; rank == 1 && !last;) {
      const uint4 x = ptx::load_packets(packets);
      const bool torn = (x.y != 0U && x.x != ~x.y) || (x.w != 0U && x.z != x.w * 3U);
      atomicAdd(failures, torn ? 1U : 0U);
      last = ptx::arrived(x, kRounds);
    }
  }
  ptx::cluster_sync();
}

}  // namespace

PtxOutcome run_ptx(PtxUse use) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    return PtxOutcome::kNoGpu;
  }
  uint2* packets = nullptr;
  unsigned* failures = nullptr;
  kernels::check(cudaMalloc(&packets, 4 * sizeof(uint2)));
  kernels::check(cudaMalloc(&failures, sizeof(unsigned)));
  kernels::check(cudaMemset(packets, 0, 4 * sizeof(uint2)));
  kernels::check(cudaMemset(failures, 0, sizeof(unsigned)));
  kernels::launch_dependent({.grid = dim3(2), .threads = kThreads, .cluster = 2}, ptx_kernel, use,
                            packets, failures);
  const cudaError_t ended = cudaDeviceSynchronize();
  if (ended == cudaErrorAssert) {
    return PtxOutcome::kAsserted;
  }
  unsigned found = 1;
  kernels::check(ended);
  kernels::check(cudaMemcpy(&found, failures, sizeof(unsigned), cudaMemcpyDeviceToHost));
  return found == 0 ? PtxOutcome::kPassed : PtxOutcome::kFailed;
}

}  // namespace versieve::test
