// How device code reads and writes the element types: 16-byte loads into floats, one rounding out.
// Bf16 (kernels/common/bf16.h) has the layout of __nv_bfloat16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/common/element.h"

namespace versieve::kernels {

// Elements in one 16-byte load.
template <class T>
inline constexpr int kWordElements = 16 / static_cast<int>(sizeof(T));

__device__ inline float device_float(float x) {
  return x;
}
__device__ inline float device_float(Bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

__device__ inline float device_float(F16 x) {
  return __half2float(__ushort_as_half(x.bits));
}

template <class T>
__device__ inline float load_f32(const T* p) {
  return device_float(*p);
}
// Rounds to nearest even.
__device__ inline void store_f32(float* p, float value) {
  *p = value;
}
__device__ inline void store_f32(Bf16* p, float value) {
  p->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

// The floats of one 16-byte word of T.
template <class T>
__device__ inline void unpack(const uint4& word, float (&x)[kWordElements<T>]);
template <>
__device__ inline void unpack<float>(const uint4& word, float (&x)[4]) {
  x[0] = __uint_as_float(word.x);
  x[1] = __uint_as_float(word.y);
  x[2] = __uint_as_float(word.z);
  x[3] = __uint_as_float(word.w);
}
template <>
__device__ inline void unpack<Bf16>(const uint4& word, float (&x)[8]) {
  const unsigned pairs[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[2 * i] = __uint_as_float(pairs[i] << 16);
    x[2 * i + 1] = __uint_as_float(pairs[i] & 0xFFFF0000U);
  }
}
template <>
__device__ inline void unpack<F16>(const uint4& word, float (&x)[8]) {
  const unsigned pairs[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&pairs[i]));
    x[2 * i] = pair.x;
    x[2 * i + 1] = pair.y;
  }
}

}  // namespace versieve::kernels
