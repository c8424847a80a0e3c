// rms_norm: one block a row; thread t squares elements [8 t, 8 t + 8) of every 2,048 in ascending
// order, the block adds in an order fixed by the thread index. Rows up to 4,096 wide stay in
// registers between the two passes. Starts under the launch before it. Bound by its latency.
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/rms_norm/launch.h"
#include "kernels/rms_norm/square_sum.cuh"
#include "kernels/rms_norm/traffic.h"
#include "model/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kPiece = 8;   // neighbouring elements of one thread
constexpr int kCached = 2;  // pieces kept in registers

template <class T>
struct alignas(16) Piece {
  T value[kPiece];
};

// Elements [at, at + 8) of a row of k; those past its end are 0. kVector: all exist, 16-byte loads.
template <bool kVector, class T>
__device__ inline void load_piece(const T* row, int at, int k, float (&x)[kPiece]) {
  if constexpr (kVector) {
    const Piece<T> piece = *reinterpret_cast<const Piece<T>*>(row + at);
    for (int j = 0; j < kPiece; ++j) {
      x[j] = load_f32(piece.value + j);
    }
  } else {
    for (int j = 0; j < kPiece; ++j) {
      x[j] = at + j < k ? load_f32(row + at + j) : 0.0F;
    }
  }
}

template <bool kVector, class T>
__device__ inline void store_piece(T* row, int at, int k, const float (&x)[kPiece]) {
  if constexpr (kVector) {
    Piece<T> piece;
    for (int j = 0; j < kPiece; ++j) {
      store_f32(piece.value + j, x[j]);
    }
    *reinterpret_cast<Piece<T>*>(row + at) = piece;
  } else {
    for (int j = 0; j < kPiece && at + j < k; ++j) {
      store_f32(row + at + j, x[j]);
    }
  }
}

template <class T, bool kVector>
__global__ void __launch_bounds__(kThreads)
    rms_norm_kernel(const __grid_constant__ RmsNormParams<T> p) {
  constexpr int kStep = kThreads * kPiece;
  __shared__ float shared[kThreads / 32];
  T* y = p.y + static_cast<std::int64_t>(blockIdx.x) * p.y_stride;
  const int k = static_cast<int>(p.k);
  const int first = static_cast<int>(threadIdx.x) * kPiece;
  release_successors();
  float weight[kCached][kPiece];
  for (int i = 0; i < kCached; ++i) {
    if (first + i * kStep < k) {
      load_piece<kVector>(p.weight, first + i * kStep, k, weight[i]);
    }
  }
  wait_for_predecessors();
  const std::int64_t row = p.x_row == nullptr ? static_cast<std::int64_t>(blockIdx.x)
                                              : static_cast<std::int64_t>(p.x_row[blockIdx.x]);
  const T* x = p.x + row * p.x_stride;
  T* copy = p.copy == nullptr ? nullptr : p.copy + static_cast<std::int64_t>(blockIdx.x) * p.k;
  float cached[kCached][kPiece];
  float square = 0.0F;
  const auto add_squares = [&](const float(&value)[kPiece]) {
    for (int j = 0; j < kPiece; ++j) {
      square = fmaf(value[j], value[j], square);
    }
  };
  for (int i = 0; i < kCached; ++i) {
    if (first + i * kStep < k) {
      load_piece<kVector>(x, first + i * kStep, k, cached[i]);
      add_squares(cached[i]);
    }
  }
  for (int at = first + kCached * kStep; at < k; at += kStep) {
    float value[kPiece];
    load_piece<kVector>(x, at, k, value);
    add_squares(value);
  }
  const float sum = block_sum<kThreads>(square, shared);
  float scale = 1.0F / sqrtf(sum / static_cast<float>(k) + static_cast<float>(p.eps));
  if (p.squares != nullptr) {
    scale = 1.0F;
    if (threadIdx.x == 0) {
      p.squares[blockIdx.x] = square_sum(sum);
    }
  }
  for (int i = 0; i < kCached; ++i) {
    if (first + i * kStep < k) {
      if (copy != nullptr) {
        store_piece<kVector>(copy, first + i * kStep, k, cached[i]);
      }
      for (int j = 0; j < kPiece; ++j) {
        cached[i][j] = cached[i][j] * scale * weight[i][j];
      }
      store_piece<kVector>(y, first + i * kStep, k, cached[i]);
    }
  }
  for (int at = first + kCached * kStep; at < k; at += kStep) {
    float value[kPiece];
    float own_weight[kPiece];
    load_piece<kVector>(x, at, k, value);
    if (copy != nullptr) {
      store_piece<kVector>(copy, at, k, value);
    }
    load_piece<kVector>(p.weight, at, k, own_weight);
    for (int j = 0; j < kPiece; ++j) {
      value[j] = value[j] * scale * own_weight[j];
    }
    store_piece<kVector>(y, at, k, value);
  }
}

template <class T>
bool whole_pieces(const RmsNormParams<T>& p) {
  const std::uintptr_t addresses =
      reinterpret_cast<std::uintptr_t>(p.x) | reinterpret_cast<std::uintptr_t>(p.y) |
      reinterpret_cast<std::uintptr_t>(p.copy) | reinterpret_cast<std::uintptr_t>(p.weight);
  return addresses % 16 == 0 && p.k % kPiece == 0 && p.x_stride % kPiece == 0 &&
         p.y_stride % kPiece == 0;
}

}  // namespace

template <class T>
void launch_rms_norm(const RmsNormParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.k >= 1 && p.k < (1 << 30), "rms_norm needs K");
  if (p.n == 0) {
    return;
  }
  RmsNormParams<T> filled = p;
  filled.x_stride = p.x_stride == 0 ? p.k : p.x_stride;
  filled.y_stride = p.y_stride == 0 ? p.k : p.y_stride;
  const LaunchRange range("rms_norm", rms_norm_traffic(p), context.observer);
  launch_dependent(
      {.grid = dim3(static_cast<unsigned>(p.n)), .threads = kThreads, .stream = context.stream},
      whole_pieces(filled) ? rms_norm_kernel<T, true> : rms_norm_kernel<T, false>, filled);
}

template void launch_rms_norm<float>(const RmsNormParams<float>&, const LaunchContext&);
template void launch_rms_norm<Bf16>(const RmsNormParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
