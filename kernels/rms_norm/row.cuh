// rms_norm of one row by one block: thread t squares elements [8 t, 8 t + 8) of every 2,048 in
// ascending order, the block adds in an order fixed by the thread index. Rows up to 4,096 wide stay
// in registers between the two passes. Bound by its latency.
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/ops.h"
#include "kernels/rms_norm/square_sum.cuh"

namespace versieve::kernels {

inline constexpr int kNormThreads = 256;  // of a block
inline constexpr int kNormPiece = 8;      // neighbouring elements of one thread
inline constexpr int kNormCached = 2;     // pieces kept in registers

template <class T>
struct alignas(16) NormPiece {
  T value[kNormPiece];
};

// Elements [at, at + 8) of a row of k; those past its end are 0. kVector: all exist, 16-byte loads.
template <bool kVector, class T>
__device__ inline void load_norm_piece(const T* row, int at, int k, float (&x)[kNormPiece]) {
  if constexpr (kVector) {
    const NormPiece<T> piece = *reinterpret_cast<const NormPiece<T>*>(row + at);
    for (int j = 0; j < kNormPiece; ++j) {
      x[j] = load_f32(piece.value + j);
    }
  } else {
    for (int j = 0; j < kNormPiece; ++j) {
      x[j] = at + j < k ? load_f32(row + at + j) : 0.0F;
    }
  }
}

template <bool kVector, class T>
__device__ inline void store_norm_piece(T* row, int at, int k, const float (&x)[kNormPiece]) {
  if constexpr (kVector) {
    NormPiece<T> piece;
    for (int j = 0; j < kNormPiece; ++j) {
      store_f32(piece.value + j, x[j]);
    }
    *reinterpret_cast<NormPiece<T>*>(row + at) = piece;
  } else {
    for (int j = 0; j < kNormPiece && at + j < k; ++j) {
      store_f32(row + at + j, x[j]);
    }
  }
}

// Row `n` of the result. What does not depend on the launch before it comes before the wait.
// p.x_stride and p.y_stride are filled in; all threads of a block of kNormThreads.
template <bool kVector, class T>
__device__ inline void rms_norm_row(const RmsNormParams<T>& p, int n) {
  constexpr int kStep = kNormThreads * kNormPiece;
  __shared__ float shared[kNormThreads / 32];
  T* y = p.y + static_cast<std::int64_t>(n) * p.y_stride;
  const int k = static_cast<int>(p.k);
  const int first = static_cast<int>(threadIdx.x) * kNormPiece;
  float weight[kNormCached][kNormPiece];
  for (int i = 0; i < kNormCached; ++i) {
    if (first + i * kStep < k) {
      load_norm_piece<kVector>(p.weight, first + i * kStep, k, weight[i]);
    }
  }
  wait_for_predecessors();
  const std::int64_t row = p.x_row == nullptr ? n : p.x_row[n];
  const T* x = p.x + row * p.x_stride;
  T* copy = p.copy == nullptr ? nullptr : p.copy + static_cast<std::int64_t>(n) * p.k;
  float cached[kNormCached][kNormPiece];
  float square = 0.0F;
  const auto add_squares = [&](const float(&value)[kNormPiece]) {
    for (int j = 0; j < kNormPiece; ++j) {
      square = fmaf(value[j], value[j], square);
    }
  };
  for (int i = 0; i < kNormCached; ++i) {
    if (first + i * kStep < k) {
      load_norm_piece<kVector>(x, first + i * kStep, k, cached[i]);
      add_squares(cached[i]);
    }
  }
  for (int at = first + kNormCached * kStep; at < k; at += kStep) {
    float value[kNormPiece];
    load_norm_piece<kVector>(x, at, k, value);
    add_squares(value);
  }
  const float sum = block_sum<kNormThreads>(square, shared);
  float scale = 1.0F / sqrtf(sum / static_cast<float>(k) + static_cast<float>(p.eps));
  if (p.squares != nullptr) {
    scale = 1.0F;
    if (threadIdx.x == 0) {
      p.squares[n] = square_sum(sum);
    }
  }
  for (int i = 0; i < kNormCached; ++i) {
    if (first + i * kStep < k) {
      if (copy != nullptr) {
        store_norm_piece<kVector>(copy, first + i * kStep, k, cached[i]);
      }
      for (int j = 0; j < kNormPiece; ++j) {
        cached[i][j] = cached[i][j] * scale * weight[i][j];
      }
      store_norm_piece<kVector>(y, first + i * kStep, k, cached[i]);
    }
  }
  for (int at = first + kNormCached * kStep; at < k; at += kStep) {
    float value[kNormPiece];
    float own_weight[kNormPiece];
    load_norm_piece<kVector>(x, at, k, value);
    if (copy != nullptr) {
      store_norm_piece<kVector>(copy, at, k, value);
    }
    load_norm_piece<kVector>(p.weight, at, k, own_weight);
    for (int j = 0; j < kNormPiece; ++j) {
      value[j] = value[j] * scale * own_weight[j];
    }
    store_norm_piece<kVector>(y, at, k, value);
  }
}

// Whether rows are read and written in 16-byte words.
template <class T>
bool whole_norm_pieces(const RmsNormParams<T>& p) {
  const std::uintptr_t addresses =
      reinterpret_cast<std::uintptr_t>(p.x) | reinterpret_cast<std::uintptr_t>(p.y) |
      reinterpret_cast<std::uintptr_t>(p.copy) | reinterpret_cast<std::uintptr_t>(p.weight);
  return addresses % 16 == 0 && p.k % kNormPiece == 0 && p.x_stride % kNormPiece == 0 &&
         p.y_stride % kNormPiece == 0;
}

}  // namespace versieve::kernels
