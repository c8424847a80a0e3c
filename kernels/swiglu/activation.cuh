// silu(gate) * up in f32, the one form of it on the device.
#pragma once

namespace versieve::kernels {

__device__ inline float logistic(float x) {
  return 1.0F / (1.0F + expf(-x));
}
__device__ inline float silu_product(float gate, float up) {
  return gate * logistic(gate) * up;
}

}  // namespace versieve::kernels
