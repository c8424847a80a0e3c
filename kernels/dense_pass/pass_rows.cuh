// 64 query rows of one KV head, by a warpgroup, against tiles of 128 keys and values in shared
// memory: wgmma products with f32 sums, a running softmax in registers. A thread holds parts of the
// rows lane / 4 and lane / 4 + 8 of its warp's 16.
//
// Queries, keys and values lie in panels of 64 elements, [d / 64][rows][128 bytes], swizzled as the
// copy engine's 128-byte mode does. Weights are 2^(score - maximum), scores in units of log2.
#pragma once

#include <cstdint>

#include "kernels/common/bf16.h"
#include "kernels/common/key_tile.cuh"
#include "kernels/flash_decode/partition.h"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "model/launches/dense_pass.h"

namespace versieve::kernels {

inline constexpr int kTilePassKeys = static_cast<int>(kPassKeys);
inline constexpr int kPassGroupRows = 64;  // of a warpgroup
inline constexpr int kGroupThreads = 128;
// Of eight weights, so many are worked out by products: beside them the exponentials' unit is as
// fast as the tensor cores.
inline constexpr int kProductShare = 2;
inline constexpr int kPassPanelBytes = kTilePassKeys * 128;
inline constexpr int kQueryPanelBytes = kPassGroupRows * 128;

__device__ inline float no_weight() {
  return __int_as_float(0xFF800000);
}

// 2^x for x <= 0 within 7.5e-5 of it, by products alone: 2^n of the nearest n by its bits, times a
// polynomial of degree 3 that fits 2^f best for |f| <= 1/2.
__device__ inline float exp2_by_products(float x) {
  const float above = fmaxf(x, -126.0F) + 12582912.0F;
  const float rest = fmaxf(x, -126.0F) - (above - 12582912.0F);
  const float power =
      fmaf(fmaf(fmaf(0.05517155F, rest, 0.24261111F), rest, 0.69326101F), rest, 0.99992807F);
  return __int_as_float(__float_as_int(power) + (__float_as_int(above) << 23));
}

template <int kHeadDim>
class PassRows {
 public:
  __device__ void start() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      max_[half] = no_weight();
      sum_[half] = 0.0F;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        acc_[n][2 * half] = 0.0F;
        acc_[n][2 * half + 1] = 0.0F;
      }
    }
  }

  // Begins the scores of a tile's keys; a group of products.
  __device__ void begin_scores(std::uint32_t queries, std::uint32_t keys) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kHeadDim / 16; ++step) {
      const std::uint32_t within = static_cast<std::uint32_t>(step % 4 * 32);
      const std::uint64_t a =
          wgmma_operand(queries + static_cast<std::uint32_t>(step / 4 * kQueryPanelBytes) + within);
      const std::uint64_t b =
          wgmma_operand(keys + static_cast<std::uint32_t>(step / 4 * kPassPanelBytes) + within);
      if (step == 0) {
        wgmma_start<kTilePassKeys>(s_, a, b);
      } else {
        wgmma<kTilePassKeys>(s_, a, b);
      }
    }
    wgmma_commit();
  }

  // Rows see the first visible[half] keys of the tile.
  __device__ void hide(const int (&visible)[2]) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < kTilePassKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s_[n][i] = n * 8 + column + i % 2 < visible[i / 2] ? s_[n][i] : no_weight();
      }
    }
  }

  // Scores to weights under the new maximum. factor: what the sums so far are to be multiplied by;
  // returns whether any of the warp's is not 1.
  __device__ bool weigh(float (&factor)[2]) {
    const float scale = 1.4426950408889634F * rsqrtf(static_cast<float>(kHeadDim));
    float offset[2];
    bool grows = false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = fmaxf(s_[0][2 * half], s_[0][2 * half + 1]);
      float other = fmaxf(s_[1][2 * half], s_[1][2 * half + 1]);
#pragma unroll
      for (int n = 2; n < kTilePassKeys / 8; n += 2) {
        most = fmaxf(most, fmaxf(s_[n][2 * half], s_[n][2 * half + 1]));
        other = fmaxf(other, fmaxf(s_[n + 1][2 * half], s_[n + 1][2 * half + 1]));
      }
      most = fmaxf(most, other);
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
      most = fmaxf(most * scale, max_[half]);
      grows = grows || most > max_[half];
      offset[half] = most == no_weight() ? 0.0F : most;
      factor[half] = exp2_flushed(max_[half] - offset[half]);
      max_[half] = most;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = 0.0F;
      float other = 0.0F;
#pragma unroll
      for (int n = 0; n < kTilePassKeys / 8; ++n) {
        float* s = s_[n] + 2 * half;
        if (n % 8 < kProductShare) {
          s[0] = exp2_by_products(fmaf(s[0], scale, -offset[half]));
          s[1] = exp2_by_products(fmaf(s[1], scale, -offset[half]));
        } else {
          s[0] = exp2_flushed(fmaf(s[0], scale, -offset[half]));
          s[1] = exp2_flushed(fmaf(s[1], scale, -offset[half]));
        }
        sum += s[0];
        other += s[1];
      }
      sum_[half] = fmaf(sum_[half], factor[half], sum + other);
    }
    return __any_sync(0xFFFFFFFFU, grows);
  }

  __device__ void rescale(const float (&factor)[2]) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        acc_[n][i] *= factor[i / 2];
      }
    }
  }

  __device__ void pack() {
#pragma unroll
    for (int step = 0; step < kTilePassKeys / 16; ++step) {
      const float(&low)[4] = s_[2 * step];
      const float(&high)[4] = s_[2 * step + 1];
      p_[step][0] = pack_bf16(low[0], low[1]);
      p_[step][1] = pack_bf16(low[2], low[3]);
      p_[step][2] = pack_bf16(high[0], high[1]);
      p_[step][3] = pack_bf16(high[2], high[3]);
    }
  }

  // Begins to add the values under the packed weights; a group of products.
  __device__ void begin_values(std::uint32_t values) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kTilePassKeys / 16; ++step) {
      wgmma_rows<kHeadDim>(acc_, p_[step],
                           wgmma_transposed_operand(
                               values + static_cast<std::uint32_t>(step * 2048), kPassPanelBytes));
    }
    wgmma_commit();
  }

  // The partial results of the thread's row of that half to chunk `at` of all rows' (-1: nowhere).
  // By whole warps.
  __device__ void store(const ChunkPartials& partials, int half, std::int64_t at) {
    float sum = sum_[half];
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    if (at < 0) {
      return;
    }
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane % 4 == 0) {
      *reinterpret_cast<float2*>(partials.max_sum + 2 * at) = {max_[half], sum};
    }
    float* value = partials.value + at * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      *reinterpret_cast<float2*>(value + n * 8) = {acc_[n][2 * half], acc_[n][2 * half + 1]};
    }
  }

 private:
  static constexpr int kColumns = kHeadDim / 8;

  float s_[kTilePassKeys / 8][4];  // scores, then weights, of the newest tile
  std::uint32_t p_[kTilePassKeys / 16][4];
  float acc_[kColumns][4];
  float max_[2];
  float sum_[2];  // this thread's part
};

}  // namespace versieve::kernels
