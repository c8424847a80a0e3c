// RMS norm within the linear layers around it (FoldedNorm, kernels/ops.h): what both CUDA forms
// share.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/ops.h"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/rms_norm/square_sum.cuh"

namespace versieve::kernels {

// What the sums of a node are multiplied by.
template <class T>
__device__ inline float input_scale(const LinearParams<T>& p, std::int64_t node) {
  return p.norm.x_squares == nullptr || node >= p.n
             ? 1.0F
             : inverse_rms(p.norm.x_squares[node], p.k, p.norm.eps);
}

// By `threads` threads of one block of those that work on the nodes [first, first + count).
template <class T>
__device__ inline void clear_squares(const LinearParams<T>& p, std::int64_t first, int count,
                                     int thread, int threads) {
  if (p.norm.cleared == nullptr) {
    return;
  }
#pragma unroll 1
  for (int i = thread; i < count; i += threads) {
    p.norm.cleared[first + i] = 0;
  }
}

// The finished output times the next norm's weight; returns its square.
template <class T>
__device__ inline float weigh_output(const LinearParams<T>& p, std::int64_t node, std::int64_t m) {
  const float y = load_f32(p.y + node * p.m + m);
  store_f32(p.norm.y_weighted + node * p.m + m, y * load_f32(p.norm.y_weight + m));
  return y * y;
}

// The same of 8 finished outputs; returns the squares of each four of them.
__device__ inline float2 weigh_octet(const uint4& packed, const uint4& weights, Bf16* weighted_at) {
  float y[8];
  float weight[8];
  unpack<Bf16>(packed, y);
  unpack<Bf16>(weights, weight);
  uint4 weighted;
  weighted.x = pack_bf16(y[0] * weight[0], y[1] * weight[1]);
  weighted.y = pack_bf16(y[2] * weight[2], y[3] * weight[3]);
  weighted.z = pack_bf16(y[4] * weight[4], y[5] * weight[5]);
  weighted.w = pack_bf16(y[6] * weight[6], y[7] * weight[7]);
  *reinterpret_cast<uint4*>(weighted_at) = weighted;
  return make_float2(fmaf(y[3], y[3], fmaf(y[2], y[2], fmaf(y[1], y[1], y[0] * y[0]))),
                     fmaf(y[7], y[7], fmaf(y[6], y[6], fmaf(y[5], y[5], y[4] * y[4]))));
}

}  // namespace versieve::kernels
