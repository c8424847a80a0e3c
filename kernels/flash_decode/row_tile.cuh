// Query rows of one warp, in tiles of 16, against tiles of 64 keys and values in shared memory:
// tensor-core products m16n8k16 with f32 sums and a running softmax. A row's bits depend on its own
// query and on the keys that it sees, tile after tile; other rows never touch them.
//
// A row is a query head of one KV head; a lane holds parts of the rows lane / 4 and lane / 4 + 8 of
// each tile. Fragments of keys and values are loaded once for all tiles of the warp.
// A tile in shared memory is panels of 64 elements, [d / 64][64 keys][128 bytes], swizzled as the
// copy engine's 128-byte mode does; it starts on 1,024 bytes.
#pragma once

#include <cstdint>

#include "kernels/common/bf16.h"
#include "kernels/common/key_tile.cuh"
#include "kernels/flash_decode/partition.h"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/mma.cuh"

namespace versieve::kernels {

__device__ inline float no_score() {
  return __int_as_float(0xFF800000);
}

template <int kHeadDim, int kTiles>
class RowTiles {
 public:
  static constexpr int kTileBytes = kHeadDim / 64 * kPanelBytes;

  // Where chunk c (of 8 elements) of a key lies.
  static __device__ std::uint32_t chunk_at(std::uint32_t tile, int key, int chunk) {
    return swizzled_chunk<128>(tile + static_cast<std::uint32_t>(chunk / 8 * kPanelBytes), key,
                               chunk % 8);
  }

  // row(r), r < 16 kTiles: the query of a row, or null.
  template <class RowAt>
  __device__ void start(const RowAt& row) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        clear_row(t, half);
        const Bf16* q = row(t * kTileRows + lane / 4 + 8 * half);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
#pragma unroll
          for (int side = 0; side < 2; ++side) {
            const int e = step * 16 + side * 8 + lane % 4 * 2;
            q_[t][step][half + 2 * side] =
                q == nullptr ? 0U : *reinterpret_cast<const std::uint32_t*>(q + e);
          }
        }
      }
    }
  }

  // Weights of the tile's keys; a row sees the first visible[t][half] of them.
  __device__ void score(std::uint32_t keys, const int (&visible)[kTiles][2]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane / 16 * 8 + lane % 8;
    const int side = lane / 8 & 1;
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          p_[t][n][i] = 0.0F;
        }
      }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int first = 0; first < 4; first += kBatch) {
        std::uint32_t b[kBatch][4];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          load_matrices_x4(chunk_at(keys, (first + i) * 16 + row, step * 2 + side), b[i]);
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
          for (int i = 0; i < kBatch; ++i) {
            const int n = 2 * (first + i);
            multiply_m16n8k16(p_[t][n], q_[t][step], b[i][0], b[i][1]);
            multiply_m16n8k16(p_[t][n + 1], q_[t][step], b[i][2], b[i][3]);
          }
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      if (visible[t][0] < kTileKeys || visible[t][1] < kTileKeys) {
        hide(t, visible[t]);
      }
      weigh(t);
    }
  }

  // The tile's weights of this lane's row to weight[0, kTileKeys), and what they are measured from
  // to top. REQUIRES: score() of the same tile was the last.
  __device__ void keep_weights(int t, int half, float* weight, float* top) const {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      *reinterpret_cast<float2*>(weight + n * 8 + column) = {p_[t][n][2 * half],
                                                             p_[t][n][2 * half + 1]};
    }
    if (column == 0) {
      *top = max_[t][half];
    }
  }

  // Adds the values under those weights.
  __device__ void add_values(std::uint32_t values) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = (lane / 8 & 1) * 8 + lane % 8;
    const int side = lane / 16;
#pragma unroll
    for (int step = 0; step < kTileKeys / 16; ++step) {
      std::uint32_t a[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float(&low)[4] = p_[t][2 * step];
        const float(&high)[4] = p_[t][2 * step + 1];
        a[t][0] = pack_bf16(low[0], low[1]);
        a[t][1] = pack_bf16(low[2], low[3]);
        a[t][2] = pack_bf16(high[0], high[1]);
        a[t][3] = pack_bf16(high[2], high[3]);
      }
#pragma unroll
      for (int first = 0; first < kColumns / 2; first += kBatch) {
        std::uint32_t b[kBatch][4];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          load_matrices_x4_transposed(chunk_at(values, step * 16 + row, 2 * (first + i) + side),
                                      b[i]);
        }
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
          for (int i = 0; i < kBatch; ++i) {
            const int n = 2 * (first + i);
            multiply_m16n8k16(acc_[t][n], a[t], b[i][0], b[i][1]);
            multiply_m16n8k16(acc_[t][n + 1], a[t], b[i][2], b[i][3]);
          }
        }
      }
    }
  }

  // The partial results of tile t's low row (half 0) or high row, if `ends` says that its chunk
  // ends here, to place `at` of all rows' chunks (-1: nowhere); such a row starts anew. By whole
  // warps.
  __device__ void end_chunk(const ChunkPartials& partials, int t, int half, bool ends,
                            std::int64_t at) {
    float sum = sum_[t][half];
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    if (!ends) {
      return;
    }
    if (at >= 0) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      if (lane % 4 == 0) {
        *reinterpret_cast<float2*>(partials.max_sum + 2 * at) = {max_[t][half], sum};
      }
      float* value = partials.value + at * kHeadDim + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        *reinterpret_cast<float2*>(value + n * 8) = {acc_[t][n][2 * half],
                                                     acc_[t][n][2 * half + 1]};
      }
    }
    clear_row(t, half);
  }

 private:
  static constexpr int kSteps = kHeadDim / 16;   // of a score's sum
  static constexpr int kColumns = kHeadDim / 8;  // tiles of an output row
  // Fragments loaded together: for products that do not wait for each other.
  static constexpr int kBatch = kTiles == 1 ? 4 : 2;

  __device__ void clear_row(int t, int half) {
    max_[t][half] = no_score();
    sum_[t][half] = 0.0F;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      acc_[t][n][2 * half] = 0.0F;
      acc_[t][n][2 * half + 1] = 0.0F;
    }
  }

  __device__ void hide(int t, const int (&visible)[2]) {
    const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = n * 8 + column + i % 2;
        p_[t][n][i] = key < visible[i / 2] ? p_[t][n][i] : no_score();
      }
    }
  }

  // Scores to weights 2^(score - max), under the new maximum. Where no row's maximum grows, all
  // factors are 1 and nothing is multiplied by them.
  __device__ void weigh(int t) {
    const float scale = 1.4426950408889634F * rsqrtf(static_cast<float>(kHeadDim));
    float most[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      most[half] = no_score();
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        most[half] = fmaxf(most[half], fmaxf(p_[t][n][2 * half], p_[t][n][2 * half + 1]));
      }
      most[half] = fmaxf(most[half], __shfl_xor_sync(0xFFFFFFFFU, most[half], 1));
      most[half] = fmaxf(most[half], __shfl_xor_sync(0xFFFFFFFFU, most[half], 2));
      most[half] = fmaxf(most[half] * scale, max_[t][half]);
    }
    if (__any_sync(0xFFFFFFFFU, most[0] > max_[t][0] || most[1] > max_[t][1])) {
      rescale(t, most);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float offset = most[half] == no_score() ? 0.0F : most[half];
      float sum = 0.0F;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          p_[t][n][i] = exp2_flushed(fmaf(p_[t][n][i], scale, -offset));
          sum += p_[t][n][i];
        }
      }
      sum_[t][half] += sum;
    }
  }
  __device__ void rescale(int t, const float (&most)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float offset = most[half] == no_score() ? 0.0F : most[half];
      const float factor = exp2_flushed(max_[t][half] - offset);
      max_[t][half] = most[half];
      sum_[t][half] *= factor;
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        acc_[t][n][2 * half] *= factor;
        acc_[t][n][2 * half + 1] *= factor;
      }
    }
  }

  std::uint32_t q_[kTiles][kSteps][4];  // fragments of the queries
  float p_[kTiles][8][4];               // scores, then weights, of the newest tile
  float acc_[kTiles][kColumns][4];
  float max_[kTiles][2];
  float sum_[kTiles][2];  // this lane's part
};

}  // namespace versieve::kernels
