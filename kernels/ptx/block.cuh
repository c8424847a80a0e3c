// Warps of a block: where some of them meet, and how they share out its registers.
#pragma once

#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// kThreads threads of the block, whole warps, meet at one of its barriers 0 to 15; 0 is that of
// __syncthreads() too.
template <int kBarrier, int kThreads>
__device__ __forceinline__ void meet() {
  static_assert(kBarrier >= 0 && kBarrier < 16, "a block has 16 barriers");
  static_assert(kThreads > 0 && kThreads <= 1024 && kThreads % 32 == 0, "whole warps meet");
  asm volatile("bar.sync %0, %1;\n" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

// The same of a barrier that is known at run time; and arriving there without waiting.
template <int kThreads>
__device__ __forceinline__ void meet_at(int barrier) {
  static_assert(kThreads > 0 && kThreads <= 1024 && kThreads % 32 == 0, "whole warps meet");
  VERSIEVE_DEVICE_ASSERT(barrier >= 0 && barrier < 16, "a block has 16 barriers");
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "n"(kThreads) : "memory");
}
template <int kThreads>
__device__ __forceinline__ void arrive_at(int barrier) {
  static_assert(kThreads > 0 && kThreads <= 1024 && kThreads % 32 == 0, "whole warps meet");
  VERSIEVE_DEVICE_ASSERT(barrier >= 0 && barrier < 16, "a block has 16 barriers");
  asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "n"(kThreads) : "memory");
}

// A warpgroup keeps kRegisters registers a thread and gives the others back. All its warps call it.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0, "as PTX has it");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
// A warpgroup has kRegisters registers a thread, once others have given them back.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  static_assert(kRegisters >= 24 && kRegisters <= 256 && kRegisters % 8 == 0, "as PTX has it");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

}  // namespace versieve::kernels
