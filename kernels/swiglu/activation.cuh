// silu(gate) * up in f32, the one form of it on the device.
#pragma once

#include "kernels/ptx/arithmetic.cuh"

namespace versieve::kernels {

__device__ inline float logistic(float x) {
  return 1.0F / (1.0F + expf(-x));
}
__device__ inline float silu_product(float gate, float up) {
  return gate * logistic(gate) * up;
}

// gate = silu(gate) * up, the same bits. nvcc turns each division by d < 2^126 into the three
// instructions here behind a test of its own; one test for all of them lets their chains overlap.
template <int kRows, int kColumns>
__device__ inline void silu_products(float (&gate)[kRows][kColumns],
                                     const float (&up)[kRows][kColumns]) {
  float divisor[kRows * kColumns];
  bool common = true;
#pragma unroll
  for (int i = 0; i < kRows * kColumns; ++i) {
    divisor[i] = 1.0F + expf(-gate[i / kColumns][i % kColumns]);
    common = common && divisor[i] < 0x1p126F;
  }
  if (common) {
#pragma unroll
    for (int i = 0; i < kRows * kColumns; ++i) {
      float inverse = reciprocal_flushed(divisor[i]);
      inverse = fmaf(inverse, -fmaf(divisor[i], inverse, -1.0F), inverse);
      float& y = gate[i / kColumns][i % kColumns];
      y = y * inverse * up[i / kColumns][i % kColumns];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kRows * kColumns; ++i) {
      float& y = gate[i / kColumns][i % kColumns];
      y = y * (1.0F / divisor[i]) * up[i / kColumns][i % kColumns];
    }
  }
}

}  // namespace versieve::kernels
