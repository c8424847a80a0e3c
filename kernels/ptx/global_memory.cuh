// Global memory: loads that keep their place, prefetches, and the counters by which thread blocks
// of one launch wait for each other. Numbers that they hand on: packets.cuh.
#pragma once

#include <cstdint>

#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// 16 bytes of read-only memory, asked for here: with few registers left, the compiler would ask for
// a second row only once the first is done with. REQUIRES: `from` on a multiple of 16.
__device__ inline uint4 load_ahead(const void* from) {
  VERSIEVE_DEVICE_ASSERT(reinterpret_cast<std::uintptr_t>(from) % 16 == 0,
                         "16 bytes lie on a multiple of 16");
  uint4 x;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from));
  return x;
}
// Brings the cache line of `at` into the second-level cache.
__device__ inline void prefetch_l2(const void* at) {
  asm volatile("prefetch.global.L2 [%0];\n" ::"l"(at));
}

// The same into the first-level cache, where lines of read-only memory are looked up.
__device__ inline void prefetch_l1(const void* at) {
  asm volatile("prefetch.global.L1 [%0];\n" ::"l"(at));
}

// The word as other SMs see it; orders nothing.
__device__ __forceinline__ unsigned load_relaxed(const unsigned* at) {
  unsigned x;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];\n" : "=r"(x) : "l"(at) : "memory");
  return x;
}
// The same; what was written before the release that it sees is visible behind it.
__device__ __forceinline__ unsigned load_acquire(const unsigned* at) {
  unsigned x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(x) : "l"(at) : "memory");
  return x;
}
// Counts one up; what this thread has seen and written so far is visible to who acquires the count.
__device__ __forceinline__ void count_release(unsigned* counter) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;\n" ::"l"(counter) : "memory");
}
// Counts one up and returns the count before; orders nothing.
__device__ __forceinline__ unsigned count_relaxed(unsigned* counter) {
  unsigned before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;\n"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}

}  // namespace versieve::kernels
