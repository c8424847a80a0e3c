// Values that the compiler works out here, not where they are used, and never again: behind
// settle() it knows nothing of them. No instruction.
#pragma once

#include <cstdint>

namespace versieve::kernels {

__device__ __forceinline__ void settle(int& value) {
  asm volatile("" : "+r"(value));
}
__device__ __forceinline__ void settle(std::uint32_t& value) {
  asm volatile("" : "+r"(value));
}
__device__ __forceinline__ void settle(std::int64_t& value) {
  asm volatile("" : "+l"(value));
}
template <class E>
__device__ __forceinline__ void settle(E*& pointer) {
  asm volatile("" : "+l"(pointer));
}

}  // namespace versieve::kernels
