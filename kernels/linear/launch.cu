// linear on CUDA: which kernel a call gets, and the plain one.
//
// Every output is summed in an order fixed by K, M and the element type alone; neither N nor the
// tile an output falls in shows in its bits.
// - f32, and bf16 with K not a multiple of 8: linear_simt_kernel below.
// - bf16 with K a multiple of 8: tensor cores, linear/stream.cu, or, of many rows and with the same
//   bits, linear/gemm.cu.
#include "kernels/common/block_reduce.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "kernels/linear/folded_norm.cuh"
#include "kernels/linear/gemm.h"
#include "kernels/linear/stream.h"
#include "kernels/linear/traffic.h"
#include "kernels/swiglu/activation.cuh"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kCols = 4;   // weight rows of one warp: outputs m, or half of them under swiglu
constexpr int kPiece = 4;  // neighbouring k of one lane

// x[0..3] of one lane's piece; elements past `count` are 0. kVector: all four exist, 16-byte load.
template <bool kVector, class T>
__device__ float4 load_piece(const T* x, int count) {
  if constexpr (kVector) {
    return *reinterpret_cast<const float4*>(x);
  } else {
    float4 v = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    v.x = count > 0 ? load_f32(x) : 0.0F;
    v.y = count > 1 ? load_f32(x + 1) : 0.0F;
    v.z = count > 2 ? load_f32(x + 2) : 0.0F;
    v.w = count > 3 ? load_f32(x + 3) : 0.0F;
    return v;
  }
}

// Grid: row tile x column tile. One warp makes kRows x kCols outputs: lane l adds the products of
// k = 4 (l + 32 i) .. + 3 in ascending order with fused multiply-adds, then lanes are added
// pairwise at distance 16, 8, 4, 2, 1.
template <class T, int kRows, bool kVector, bool kSwiglu>
__global__ void __launch_bounds__(kWarps * 32)
    linear_simt_kernel(const __grid_constant__ LinearParams<T> p) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t n0 = static_cast<std::int64_t>(blockIdx.x) * kRows;
  constexpr int kOuts = kSwiglu ? kCols / 2 : kCols;
  const std::int64_t m0 =
      (static_cast<std::int64_t>(blockIdx.y) * kWarps + threadIdx.x / 32) * kOuts;
  if (blockIdx.y == 0) {
    clear_squares(p, n0, static_cast<int>(min(static_cast<std::int64_t>(kRows), p.n - n0)),
                  static_cast<int>(threadIdx.x), kWarps * 32);
  }
  if (m0 >= p.m) {
    return;
  }
  const T* x[kRows];
  const T* w[kCols];
  for (int r = 0; r < kRows; ++r) {
    x[r] = p.x + min(n0 + r, static_cast<std::int64_t>(p.n - 1)) * p.k;
  }
  for (int c = 0; c < kCols; ++c) {
    const std::int64_t row = min(m0 + c % kOuts, static_cast<std::int64_t>(p.m - 1));
    w[c] = p.w + (c < kOuts ? row : row + p.m) * p.k;
  }
  float acc[kRows][kCols] = {};
  const int k_end = static_cast<int>(p.k);
#pragma unroll 2
  for (int k = lane * kPiece; k < k_end; k += 32 * kPiece) {
    float4 column[kCols];
    for (int c = 0; c < kCols; ++c) {
      column[c] = load_piece<kVector>(w[c] + k, k_end - k);
    }
    for (int r = 0; r < kRows; ++r) {
      const float4 row = load_piece<kVector>(x[r] + k, k_end - k);
      for (int c = 0; c < kCols; ++c) {
        float sum = fmaf(row.x, column[c].x, acc[r][c]);
        sum = fmaf(row.y, column[c].y, sum);
        sum = fmaf(row.z, column[c].z, sum);
        acc[r][c] = fmaf(row.w, column[c].w, sum);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    const float scale = input_scale(p, n0 + r);
    for (int c = 0; c < kCols; ++c) {
      acc[r][c] = warp_sum(acc[r][c]) * scale;
    }
    for (int c = 0; c < kOuts; ++c) {
      const float sum = kSwiglu ? silu_product(acc[r][c], acc[r][c + kCols / 2]) : acc[r][c];
      if (lane == r * kOuts + c && n0 + r < p.n && m0 + c < p.m) {
        const std::int64_t at = (n0 + r) * p.m + m0 + c;
        store_f32(p.y + at, p.residual == nullptr ? sum : load_f32(p.residual + at) + sum);
        if (p.y_copy != nullptr) {
          p.y_copy[(n0 + r) * p.y_copy_stride + m0 + c] = p.y[at];
        }
        if (p.norm.y_weight != nullptr) {
          const float square = weigh_output(p, n0 + r, m0 + c);
          atomicAdd(p.norm.y_squares + n0 + r, square_sum(square));
        }
      }
    }
  }
}

template <class T, int kRows, bool kVector>
void launch_simt_tile(const LinearParams<T>& p, cudaStream_t stream) {
  const std::int64_t columns = kWarps * (p.swiglu ? kCols / 2 : kCols);
  const dim3 grid(static_cast<unsigned>((p.n + kRows - 1) / kRows),
                  static_cast<unsigned>((p.m + columns - 1) / columns));
  VERSIEVE_ASSERT(grid.y <= 65535, "linear on CUDA takes up to 1,048,560 columns");
  if (p.swiglu) {
    linear_simt_kernel<T, kRows, kVector, true><<<grid, kWarps * 32, 0, stream>>>(p);
  } else {
    linear_simt_kernel<T, kRows, kVector, false><<<grid, kWarps * 32, 0, stream>>>(p);
  }
}

template <class T, bool kVector>
void launch_simt(const LinearParams<T>& p, cudaStream_t stream) {
  if (p.n == 1) {
    launch_simt_tile<T, 1, kVector>(p, stream);
  } else if (p.n <= 4) {
    launch_simt_tile<T, 4, kVector>(p, stream);
  } else {
    launch_simt_tile<T, 8, kVector>(p, stream);
  }
}

bool aligned_to_16(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

void launch_kernel(const LinearParams<float>& p, cudaStream_t stream) {
  if (p.k % kPiece == 0) {
    VERSIEVE_ASSERT(aligned_to_16(p.x) && aligned_to_16(p.w), "rows start on 16 bytes");
    launch_simt<float, true>(p, stream);
  } else {
    launch_simt<float, false>(p, stream);
  }
}

void launch_kernel(const LinearParams<Bf16>& p, cudaStream_t stream) {
  if (p.k % 8 == 0) {
    VERSIEVE_ASSERT(aligned_to_16(p.x) && aligned_to_16(p.w), "rows start on 16 bytes");
    linear_gemm_takes(p) ? launch_linear_gemm(p, stream) : launch_linear_stream(p, stream);
  } else {
    launch_simt<Bf16, false>(p, stream);
  }
}

}  // namespace

template <class T>
void launch_linear(const LinearParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.k >= 1 && p.k < (1 << 30) && p.m >= 1, "linear needs K and M");
  VERSIEVE_ASSERT(!p.swiglu || p.residual == nullptr, "swiglu takes no residual");
  VERSIEVE_ASSERT(!p.swiglu || p.norm.y_weight == nullptr, "no norm follows swiglu");
  VERSIEVE_ASSERT(!p.swiglu || p.y_copy == nullptr, "swiglu writes its rows once");
  if (p.n == 0) {
    return;
  }
  const LaunchRange range("linear", linear_traffic(p), context.observer);
  launch_kernel(p, context.stream);
  check(cudaGetLastError());
}

template void launch_linear<float>(const LinearParams<float>&, const LaunchContext&);
template void launch_linear<Bf16>(const LinearParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
