// Sixteen query rows of one warp against tiles of 64 keys and values in shared memory: tensor-core
// products m16n8k16 with f32 sums and a running softmax. A row's bits depend on its own query and
// on the keys that it sees, tile after tile; other rows of the tile never touch them.
//
// A row is a query head of one KV head; a lane holds parts of the rows lane / 4 and lane / 4 + 8.
// A tile in shared memory is panels of 64 elements, [d / 64][64 keys][128 bytes], swizzled as the
// copy engine's 128-byte mode does; it starts on 1,024 bytes.
#pragma once

#include <cstdint>

#include "kernels/common/bf16.h"
#include "kernels/common/mma_bf16.cuh"
#include "kernels/flash_decode/partition.h"

namespace versieve::kernels {

inline constexpr int kTileKeys = 64;
inline constexpr int kTileRows = 16;

__device__ inline float no_score() {
  return __int_as_float(0xFF800000);
}

template <int kHeadDim>
class RowTile {
 public:
  static constexpr int kPanelBytes = kTileKeys * 128;
  static constexpr int kTileBytes = kHeadDim / 64 * kPanelBytes;

  // Where chunk c (of 8 elements) of a key lies.
  static __device__ std::uint32_t chunk_at(std::uint32_t tile, int key, int chunk) {
    return swizzled_chunk<128>(tile + static_cast<std::uint32_t>(chunk / 8 * kPanelBytes), key,
                               chunk % 8);
  }

  // row(r), r < 16: the query of a row, or null.
  template <class RowAt>
  __device__ void load_queries(const RowAt& row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Bf16* q = row(lane / 4 + 8 * half);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int side = 0; side < 2; ++side) {
          const int e = step * 16 + side * 8 + lane % 4 * 2;
          q_[step][half + 2 * side] =
              q == nullptr ? 0U : *reinterpret_cast<const std::uint32_t*>(q + e);
        }
      }
    }
  }

  __device__ void clear() {
    clear_row(0);
    clear_row(1);
  }

  // Weights of the tile's keys; a row sees the first `visible` (low row, high row) of them.
  __device__ void score(std::uint32_t keys, int visible_low, int visible_high) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane / 16 * 8 + lane % 8;
    const int side = lane / 8 & 1;
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        p_[n][i] = 0.0F;
        p_[n + 1][i] = 0.0F;
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        std::uint32_t b[4];
        load_matrices_x4(chunk_at(keys, n * 8 + row, step * 2 + side), b);
        multiply_m16n8k16(p_[n], q_[step], b[0], b[1]);
        multiply_m16n8k16(p_[n + 1], q_[step], b[2], b[3]);
      }
    }
    if (visible_low < kTileKeys || visible_high < kTileKeys) {
      hide(visible_low, visible_high);
    }
    weigh();
  }

  // Adds the values under those weights.
  __device__ void add_values(std::uint32_t values) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = (lane / 8 & 1) * 8 + lane % 8;
    const int side = lane / 16;
#pragma unroll
    for (int step = 0; step < kTileKeys / 16; ++step) {
      const std::uint32_t a[4] = {pack_bf16(p_[2 * step][0], p_[2 * step][1]),
                                  pack_bf16(p_[2 * step][2], p_[2 * step][3]),
                                  pack_bf16(p_[2 * step + 1][0], p_[2 * step + 1][1]),
                                  pack_bf16(p_[2 * step + 1][2], p_[2 * step + 1][3])};
#pragma unroll
      for (int n = 0; n < kColumns; n += 2) {
        std::uint32_t b[4];
        load_matrices_x4_transposed(chunk_at(values, step * 16 + row, n + side), b);
        multiply_m16n8k16(acc_[n], a, b[0], b[1]);
        multiply_m16n8k16(acc_[n + 1], a, b[2], b[3]);
      }
    }
  }

  // The partial results of the low row (half 0) or the high row, if `ends` says that its chunk ends
  // here, to place `at` of all rows' chunks (-1: nowhere); such a row starts anew. By whole warps.
  __device__ void end_chunk(const ChunkPartials& partials, int half, bool ends, std::int64_t at) {
    float sum = sum_[half];
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    if (!ends) {
      return;
    }
    if (at >= 0) {
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
    clear_row(half);
  }

 private:
  static constexpr int kSteps = kHeadDim / 16;   // of a score's sum
  static constexpr int kColumns = kHeadDim / 8;  // tiles of an output row

  __device__ void clear_row(int half) {
    max_[half] = no_score();
    sum_[half] = 0.0F;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      acc_[n][2 * half] = 0.0F;
      acc_[n][2 * half + 1] = 0.0F;
    }
  }

  __device__ void hide(int visible_low, int visible_high) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = n * 8 + column + i % 2;
        p_[n][i] = key < (i < 2 ? visible_low : visible_high) ? p_[n][i] : no_score();
      }
    }
  }

  // Scores to weights 2^(score - max), under the new maximum.
  __device__ void weigh() {
    const float scale = 1.4426950408889634F * rsqrtf(static_cast<float>(kHeadDim));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = no_score();
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        most = fmaxf(most, fmaxf(p_[n][2 * half], p_[n][2 * half + 1]));
      }
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
      most = fmaxf(most * scale, max_[half]);
      const float offset = most == no_score() ? 0.0F : most;
      const float factor = exp2_flushed(max_[half] - offset);
      max_[half] = most;
      float sum = 0.0F;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          p_[n][i] = exp2_flushed(fmaf(p_[n][i], scale, -offset));
          sum += p_[n][i];
        }
      }
      sum_[half] = fmaf(sum_[half], factor, sum);
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        acc_[n][2 * half] *= factor;
        acc_[n][2 * half + 1] *= factor;
      }
    }
  }

  std::uint32_t q_[kSteps][4];  // fragments of the queries
  float p_[8][4];               // scores, then weights, of the newest tile
  float acc_[kColumns][4];
  float max_[2];
  float sum_[2];  // this lane's part
};

}  // namespace versieve::kernels
