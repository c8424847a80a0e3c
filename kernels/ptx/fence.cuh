// Order between the threads' loads and stores, the copy engine's, and the compiler's.
#pragma once

namespace versieve::kernels {

// This thread's writes to shared memory so far may be read, or overwritten, by the copy engine.
__device__ inline void fence_for_copies() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
// The compiler moves no load and no store across; no instruction.
__device__ __forceinline__ void keep_order() {
  asm volatile("" ::: "memory");
}

}  // namespace versieve::kernels
