// Sixteen rows (16 / Hp queries with their Hp query heads, Hp = H/G rounded up to a power of two)
// against a tile of 64 keys at a time, on the tensor cores of one warp.
//
// Why bits do not depend on how keys were grouped into tiles: scores in log2 units are rounded to
// multiples of 2^-12 and the softmax reference is an integer, so that p = 2^(t - reference) under
// another reference differs by an exact power of two and rescaling is exact. What is left is the
// order of sums, which goes over slices of 16 keys in ascending position; a masked key adds an
// exact zero. So a row gives the same bits whether its keys came in one tile, in several, from the
// cache or from the tree, alone or with other rows.
#pragma once

#include <cstdint>

#include "kernels/common/device_element.cuh"
#include "kernels/common/key_tile.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/mma.cuh"
#include "model/launches/fused_cut.h"

namespace versieve::kernels {

static_assert(kTileKeys == kFusedTile && kTileRows == kFusedRows, "a tile is what the cut counts");
inline constexpr int kSliceKeys = kFusedSlice;  // keys of one product step, aligned to position
inline constexpr int kSlots = kTileKeys / kSliceKeys;  // slices of a tile

// A state that has seen no key.
inline constexpr float kNoReference = -3.0e38F;

// Weight of a state in a merge under the reference `most`.
__device__ inline float state_weight(float reference, float most) {
  return exp2_flushed(reference - most);
}

// Address of chunk c (8 elements) of row r of a unit (a tile's keys or its values) in shared
// memory: panels of 64 elements, rows of 128 bytes, their chunks of 16 bytes permuted as the copy
// engine's 128-byte swizzle does.
__device__ inline std::uint32_t unit_chunk(std::uint32_t unit, int row, int chunk) {
  return unit + static_cast<std::uint32_t>(chunk / 8 * kTileKeys * 128 + row * 128 +
                                           ((chunk % 8) ^ (row & 7)) * 16);
}

// The address of chunk c + 2 step of a row whose chunk c, 0 or 1, lies at `at`: within a panel such
// a step turns bits of the swizzled address over, nothing else.
__device__ __forceinline__ std::uint32_t chunk_of_step(std::uint32_t at, int step) {
  return (at ^ static_cast<std::uint32_t>(step % 4 * 32)) +
         static_cast<std::uint32_t>(step / 4 * kTileKeys * 128);
}

// A row of a unit.
struct UnitRow {
  std::uint32_t unit;
  int row;
};

// Weights of a slice's keys 0-7 and 8-15 as the left operand of a product.
__device__ __forceinline__ void pack_weights(const float (&low)[4], const float (&high)[4],
                                             std::uint32_t (&p)[4]) {
  p[0] = pack_bf16(low[0], low[1]);
  p[1] = pack_bf16(low[2], low[3]);
  p[2] = pack_bf16(high[0], high[1]);
  p[3] = pack_bf16(high[2], high[3]);
}

// kHalves: 1 where rows 8 to 15 hold nothing; what they would cost beside the products is left out.
template <int kD, int kHalves = 2>
struct Rows {
  static constexpr int kUnitBytes = kTileKeys * kD * 2;  // a tile's keys, or its values
  // t = score * log2(e) / sqrt(d) + kGrid has a last place of 2^-12 for |t - kGrid| < 1024.
  static constexpr float kGrid = 3072.0F;
  // How far a new reference lies above the greatest score: most tiles then need no other one.
  static constexpr float kSlack = 8.0F;

  std::uint32_t q[kD / 16][4];
  float out[kD / 8][4];  // rows lane / 4 and lane / 4 + 8, unnormalised
  float reference[2];    // integers + kGrid
  float sum[2];          // this lane's share of the softmax sums
  float scale;

  // rows: the elements of rows lane / 4 and lane / 4 + 8 from 2 (lane % 4) on, or null. head_dim is
  // a multiple of 16.
  __device__ __forceinline__ void load(int head_dim, const Bf16* const (&rows)[2]) {
    scale = 1.4426950408889634F * rsqrtf(static_cast<float>(head_dim));
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        q[step][i] =
            rows[i % 2] != nullptr && step * 16 < head_dim
                ? *reinterpret_cast<const std::uint32_t*>(rows[i % 2] + step * 16 + i / 2 * 8)
                : 0U;
      }
    }
    reset();
  }

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int i = 0; i < kD / 8; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        out[i][e] = 0.0F;
      }
    }
    reference[0] = reference[1] = kNoReference;
    sum[0] = sum[1] = 0.0F;
  }

  // q k of the 64 keys of a unit: s[n][e] of row lane / 4 + e / 2 * 8 and key 8 n + lane % 4 * 2 +
  // e % 2.
  __device__ __forceinline__ void score(std::uint32_t keys, float (&s)[kTileKeys / 8][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t first = unit_chunk(keys, score_key(), lane / 8 % 2);
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] = 0.0F;
      }
    }
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      const std::uint32_t at = chunk_of_step(first, step);
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) {
        std::uint32_t b[4];
        load_matrices_x4(at + slot * kSliceKeys * 128, b);
        multiply_m16n8k16(s[slot * 2], q[step], b[0], b[1]);
        multiply_m16n8k16(s[slot * 2 + 1], q[step], b[2], b[3]);
      }
    }
  }

  // Scores become softmax weights. offset: kGrid, or -inf for a row that takes no part.
  template <int kN>
  __device__ __forceinline__ void weigh(float (&s)[kN][4], const float (&offset)[2]) {
    float most[2 * kHalves];  // of each column, so that chains are short
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 2 * kHalves; ++e) {
        s[n][e] = fmaf(s[n][e], scale, offset[e / 2]);
        most[e] = n == 0 ? s[n][e] : fmaxf(most[e], s[n][e]);
      }
    }
    float greatest[kHalves];
#pragma unroll
    for (int r = 0; r < kHalves; ++r) {
      greatest[r] = fmaxf(most[2 * r], most[2 * r + 1]);
    }
    raise(greatest);
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] = e < 2 * kHalves ? exp2_flushed(s[n][e] - reference[e / 2]) : 0.0F;
      }
#pragma unroll
      for (int r = 0; r < kHalves; ++r) {
        sum[r] += s[n][2 * r] + s[n][2 * r + 1];
      }
    }
  }

  // q k of 16 keys that may lie anywhere: this lane gives the place of key score_key().
  __device__ __forceinline__ static int score_key() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return lane / 16 * 8 + lane % 8;
  }
  __device__ __forceinline__ void score_slice(UnitRow key, float (&s)[2][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t first = unit_chunk(key.unit, key.row, lane / 8 % 2);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[0][e] = s[1][e] = 0.0F;
    }
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      std::uint32_t b[4];
      load_matrices_x4(chunk_of_step(first, step), b);
      multiply_m16n8k16(s[0], q[step], b[0], b[1]);
      multiply_m16n8k16(s[1], q[step], b[2], b[3]);
    }
  }

  // Packed weights of 16 keys times their values; this lane gives the place of that of key
  // value_key().
  __device__ __forceinline__ static int value_key() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return lane / 8 % 2 * 8 + lane % 8;
  }
  __device__ __forceinline__ void add_slice(UnitRow value, const std::uint32_t (&p)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    add_slice_at(unit_chunk(value.unit, value.row, lane / 16), 0, p);
  }
  // The same for slot `slot` of a tile's values.
  __device__ __forceinline__ void add_values(std::uint32_t values, int slot,
                                             const std::uint32_t (&p)[4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    add_slice_at(unit_chunk(values, value_key(), lane / 16), slot * kSliceKeys * 128, p);
  }

 private:
  // first: where chunk lane / 16 of a row lies; the value's row lies `behind` bytes behind that
  // one.
  __device__ __forceinline__ void add_slice_at(std::uint32_t first, int behind,
                                               const std::uint32_t (&p)[4]) {
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      std::uint32_t b[4];
      load_matrices_x4_transposed(chunk_of_step(first, step) + static_cast<std::uint32_t>(behind),
                                  b);
      multiply_m16n8k16(out[step * 2], p, b[0], b[1]);
      multiply_m16n8k16(out[step * 2 + 1], p, b[2], b[3]);
    }
  }
  // No row's reference lies below its scores. most: the greatest of this lane's, of rows lane / 4
  // and lane / 4 + 8. A new reference follows from the row's own keys alone.
  __device__ __forceinline__ void raise(const float (&most)[kHalves]) {
    bool over = false;
#pragma unroll
    for (int r = 0; r < kHalves; ++r) {
      over = over || most[r] > reference[r];
    }
    if (!__any_sync(0xFFFFFFFFU, over)) {
      return;
    }
    float factor[kHalves];
#pragma unroll
    for (int r = 0; r < kHalves; ++r) {
      float row = fmaxf(most[r], __shfl_xor_sync(0xFFFFFFFFU, most[r], 1));
      row = fmaxf(row, __shfl_xor_sync(0xFFFFFFFFU, row, 2));
      const float before = reference[r];
      reference[r] = row > before ? ceilf(row) + kSlack : before;
      factor[r] = state_weight(before, reference[r]);
      sum[r] *= factor[r];
    }
#pragma unroll
    for (int i = 0; i < kD / 8; ++i) {
#pragma unroll
      for (int e = 0; e < 2 * kHalves; ++e) {
        out[i][e] *= factor[e / 2];
      }
    }
  }
};

}  // namespace versieve::kernels
