// Rotary of one pair, the one form of it on the device.
#pragma once

namespace versieve::kernels {

// The pair (a, b) turned by the angle of cosine c and sine s.
__device__ inline float turned_low(float a, float b, float c, float s) {
  return fmaf(a, c, -__fmul_rn(b, s));
}
__device__ inline float turned_high(float a, float b, float c, float s) {
  return fmaf(b, c, __fmul_rn(a, s));
}

}  // namespace versieve::kernels
