// Elements of tensors on the device: f32 or bf16 in memory, f32 in registers.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/common/bf16.h"

namespace versieve::kernels {

__device__ inline float load_f32(const float* p) {
  return *p;
}
__device__ inline float load_f32(const Bf16* p) {
  return __uint_as_float(static_cast<std::uint32_t>(p->bits) << 16);
}
// Rounds to nearest even.
__device__ inline void store_f32(float* p, float value) {
  *p = value;
}
__device__ inline void store_f32(Bf16* p, float value) {
  p->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

}  // namespace versieve::kernels
