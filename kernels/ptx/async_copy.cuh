// Asynchronous copies by a thread (cp.async): 16 bytes at a time from global to shared memory, past
// the first-level cache.
#pragma once

#include <cstdint>

#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// Asks for 16 bytes; for this thread they are there after await_fetched(). REQUIRES: both addresses
// on multiples of 16.
__device__ inline void fetch_16(std::uint32_t to, const void* from) {
  VERSIEVE_DEVICE_ASSERT(to % 16 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0,
                         "16 bytes lie on a multiple of 16");
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(from) : "memory");
}
// What was asked for since the last group is a group.
__device__ inline void end_fetch_group() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
// All but the newest kPending groups are there.
template <int kPending>
__device__ inline void await_fetch_groups() {
  static_assert(kPending >= 0, "groups are counted");
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}
// All that was asked for is there, groups or not.
__device__ inline void await_fetched() {
  asm volatile("cp.async.wait_all;\n" ::: "memory");
}

}  // namespace versieve::kernels
