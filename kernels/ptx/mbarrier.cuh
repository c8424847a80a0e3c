// Barriers in shared memory (mbarrier), by address: they count arrivals and bytes, and whoever
// waits for a phase names its parity, 0 for the first.
#pragma once

#include <cstdint>

#include "kernels/ptx/device_assert.cuh"
#include "kernels/ptx/fence.cuh"

namespace versieve::kernels {

// 8 bytes become a barrier whose phases end with `arrivals` arrivals. REQUIRES: on a multiple of 8.
__device__ inline void barrier_init(std::uint32_t barrier, int arrivals) {
  VERSIEVE_DEVICE_ASSERT(barrier % 8 == 0, "a barrier lies on a multiple of 8");
  VERSIEVE_DEVICE_ASSERT(arrivals > 0 && arrivals < 1 << 20, "a barrier counts 1 to 2^20 - 1");
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
               : "memory");
}
// The barrier ends: before its memory serves anything else, another barrier too.
__device__ inline void barrier_invalidate(std::uint32_t barrier) {
  VERSIEVE_DEVICE_ASSERT(barrier % 8 == 0, "a barrier lies on a multiple of 8");
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];\n" ::"r"(barrier) : "memory");
}
// After barrier_init by the same thread: the cluster and the copy engine may use its barriers.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
// The same where other shared memory was written too that copies will overwrite.
__device__ inline void publish_barriers() {
  fence_barrier_init();
  fence_for_copies();
}

// Arrives once.
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  VERSIEVE_DEVICE_ASSERT(barrier % 8 == 0, "a barrier lies on a multiple of 8");
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// Arrives kTimes times at once.
template <int kTimes>
__device__ inline void barrier_arrive_times(std::uint32_t barrier) {
  static_assert(kTimes > 0, "an arrival counts");
  VERSIEVE_DEVICE_ASSERT(barrier % 8 == 0, "a barrier lies on a multiple of 8");
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "n"(kTimes)
               : "memory");
}
// Arrives; the phase ends when also `bytes` have been copied or pushed.
__device__ inline void barrier_expect(std::uint32_t barrier, int bytes) {
  VERSIEVE_DEVICE_ASSERT(barrier % 8 == 0, "a barrier lies on a multiple of 8");
  VERSIEVE_DEVICE_ASSERT(bytes >= 0 && bytes < 1 << 20 && bytes % 4 == 0,
                         "a barrier counts whole words, less than 2^20 bytes");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Returns when the phase of that parity has ended. REQUIRES: parity 0 or 1.
__device__ inline void barrier_wait(std::uint32_t barrier, int parity) {
  VERSIEVE_DEVICE_ASSERT(barrier % 8 == 0, "a barrier lies on a multiple of 8");
  VERSIEVE_DEVICE_ASSERT(parity == 0 || parity == 1, "a phase has parity 0 or 1");
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished_%=;\n"
      "bra again_%=;\n"
      "finished_%=:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace versieve::kernels
