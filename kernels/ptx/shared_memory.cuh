// Shared memory by its 32-bit address: loads and stores that stay where they are written.
#pragma once

#include <cstdint>

#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// The address of what lies in this block's shared memory.
__device__ inline std::uint32_t shared_address(const void* pointer) {
  VERSIEVE_DEVICE_ASSERT(__isShared(pointer), "shared memory is addressed");
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Stores 16 bytes. REQUIRES: `to` on a multiple of 16.
__device__ inline void store_16(std::uint32_t to, uint4 x) {
  VERSIEVE_DEVICE_ASSERT(to % 16 == 0, "16 bytes lie on a multiple of 16");
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}
// The same of four floats, which ptxas would move once more if they came as bits, and so read sums
// of wgmma before they are waited for.
__device__ inline void store_16(std::uint32_t to, float a, float b, float c, float d) {
  VERSIEVE_DEVICE_ASSERT(to % 16 == 0, "16 bytes lie on a multiple of 16");
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(to), "f"(a), "f"(b), "f"(c),
               "f"(d)
               : "memory");
}
// Loads 16 bytes. REQUIRES: `from` on a multiple of 16.
__device__ inline uint4 load_16(std::uint32_t from) {
  VERSIEVE_DEVICE_ASSERT(from % 16 == 0, "16 bytes lie on a multiple of 16");
  uint4 x;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}
// Loads a float. REQUIRES: `from` on a multiple of 4.
__device__ inline float load_4(std::uint32_t from) {
  VERSIEVE_DEVICE_ASSERT(from % 4 == 0, "a float lies on a multiple of 4");
  float x;
  asm volatile("ld.shared.f32 %0, [%1];\n" : "=f"(x) : "r"(from) : "memory");
  return x;
}
// Loads a signed number of 16 bits that no thread writes any more. REQUIRES: `from` even.
__device__ __forceinline__ int load_2(std::uint32_t from) {
  VERSIEVE_DEVICE_ASSERT(from % 2 == 0, "16 bits lie on a multiple of 2");
  std::int16_t x;
  asm volatile("ld.shared.s16 %0, [%1];\n" : "=h"(x) : "r"(from));
  return x;
}

}  // namespace versieve::kernels
