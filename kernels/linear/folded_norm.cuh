// RMS norm within the linear layers around it (FoldedNorm, kernels/ops.h): what both CUDA forms
// share.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/ops.h"
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

}  // namespace versieve::kernels
