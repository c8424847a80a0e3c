// A piece of a part in decode_layers: where its tiles lie, the node's query heads against a tile of
// 64 keys, and what is kept of the weights.
#pragma once

#include "kernels/decode_layers/products.cuh"
#include "kernels/nsa_verify/fused_rows.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::kernels {

// Softmax weights of a piece's tiles, packed as left operands, and their sums by pairs of keys.
struct PieceWeights {
  uint2* packed;  // [tile][slice][lane]
  float* pairs;   // [tile][8][lane]

  __device__ __forceinline__ explicit PieceWeights(unsigned char* work)
      : packed(reinterpret_cast<uint2*>(work)),
        pairs(reinterpret_cast<float*>(work + kComputeWarps * kSlots * 32 * sizeof(uint2))) {}
};
static_assert(kComputeWarps * kSlots * 32 * (sizeof(uint2) + 2 * sizeof(float)) <= kWorkBytes);

// Stages of a piece: boxes of its tiles' keys, then of their values; panels of 64 elements.
template <int kD>
struct PieceStages {
  static constexpr int kPanels = kD / 64;
  const DecodeCta& c;
  StageCursor first;
  int tiles;
  bool chosen;  // filled by the computing warps, counted on a barrier of their own
  int turn;     // its parity

  __device__ __forceinline__ int box(int tile, bool values, int panel) const {
    return (tile + (values ? tiles : 0)) * kPanels + panel;
  }
  __device__ __forceinline__ int stages() const { return stages_of(2 * tiles * kPanels); }
  __device__ __forceinline__ std::uint32_t panel(int tile, bool values, int panel) const {
    constexpr int kRingBoxes = kMostStages * kStageBoxes;
    const int i = first.place * kStageBoxes + box(tile, values, panel);
    return c.stages_at +
           static_cast<std::uint32_t>((i < kRingBoxes ? i : i - kRingBoxes) * kBoxBytes);
  }
  // All panels of a tile lie in one stage.
  __device__ __forceinline__ void wait(int tile, bool values) const {
    wait_stage(box(tile, values, 0) / kStageBoxes);
  }
  __device__ __forceinline__ void wait_stage(int stage) const {
    const StageCursor at = first.ahead(stage);
    barrier_wait(chosen ? c.chosen_full_at : c.full(at.place), chosen ? turn : at.parity);
  }
  // For all of them: what others saw come, this thread too.
  __device__ __forceinline__ void wait_all() const {
    const int count = chosen ? 1 : stages();
#pragma unroll 1
    for (int stage = 0; stage < count; ++stage) {
      wait_stage(stage);
    }
  }
  // Some lanes of one warp: whoever read them has met since.
  __device__ __forceinline__ void release() const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (!chosen && lane < stages()) {
      free_stage(c.empty(first.ahead(lane).place));
    }
  }
};
static_assert(kStageBoxes % 2 == 0, "a tile of wide heads lies in one stage");

// The node's query heads of a KV head, rows 0 to 7 of left operands; rows 8 to 15 are zero.
template <int kD>
struct DecodeRows {
  std::uint32_t q[kD / 16][2];

  __device__ __forceinline__ void load(const Bf16* rows, int heads) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        q[step][i] = lane / 4 < heads ? *reinterpret_cast<const std::uint32_t*>(
                                            rows + lane / 4 * kD + step * 16 + i * 8 + lane % 4 * 2)
                                      : 0U;
      }
    }
  }
  // q k of a tile's 64 keys: s[n][e] of row lane / 4 and key 8 n + lane % 4 * 2 + e, e < 2.
  __device__ __forceinline__ void score(const PieceStages<kD>& stages, int tile,
                                        float (&s)[kTileKeys / 8][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] = 0.0F;
      }
    }
#pragma unroll
    for (int step = 0; step < kD / 16; ++step) {
      const std::uint32_t a[4] = {q[step][0], 0U, q[step][1], 0U};
      const std::uint32_t at = swizzled_chunk<128>(stages.panel(tile, false, step / 4), row,
                                                   step % 4 * 2 + lane / 8 % 2);
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) {
        std::uint32_t b[4];
        load_matrices_x4(at + slot * kSliceKeys * 128, b);
        multiply_m16n8k16(s[slot * 2], a, b[0], b[1]);
        multiply_m16n8k16(s[slot * 2 + 1], a, b[2], b[3]);
      }
    }
  }
};

// What has been summed of a part: this warp's columns of the heads' outputs.
template <int kD>
struct PartState {
  static constexpr int kColumns = kD / 64;  // groups of 8
  float out[kColumns][4] = {};
  float reference = kNoReference;  // of row lane / 4
  float sum = 0.0F;                // this lane's share; warp 0
};

// Puts the node's own row into a tile that holds its place; one warp.
template <int kD>
__device__ __forceinline__ void place_own(const PieceStages<kD>& stages, int tile, bool values,
                                          int row, const Bf16* own) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (row >= 0) {
    if (lane < kD / 8) {
      const uint4 x = *reinterpret_cast<const uint4*>(own + lane * 8);
      const std::uint32_t at =
          swizzled_chunk<128>(stages.panel(tile, values, lane / 8), row, lane % 8);
      store_16(at, x);
    }
    fence_for_copies();  // the stage will be copied into again
    __syncwarp();
  }
}

// Sends the sums of weights that the importance of blocks needs (nsa_verify/fused_route.cuh): of
// each slice of 16 compressed tokens its four blocks, its last token, and the reference.
struct DecodeKeepBlocks {
  uint2* to;  // of this lane's row and quarter, slice 0; null: nowhere
  unsigned epoch;
  std::uint32_t times[2];

  __device__ __forceinline__ DecodeKeepBlocks(const DecodeCta& c, uint2* mail, unsigned layer_epoch)
      : epoch(layer_epoch) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int quarter = lane % 4;
    const auto times_of = [&](int token) {
      const int block = lane / 4;
      const int place = token - 4 * block;
      const bool own = place >= 0 && place < 4 && block < 4;
      const float inside = own ? (place == 3 ? 1.0F : 2.0F) : 0.0F;
      return place == -1 && block <= 4 ? 1.0F : inside;
    };
    times[0] = pack_bf16(times_of(quarter * 2), times_of(quarter * 2 + 1));
    times[1] = pack_bf16(times_of(quarter * 2 + 8), times_of(quarter * 2 + 9));
    const int row = lane / 4;
    to = row < c.a.group_heads && quarter < 3
             ? mail + c.a.mail.weights +
                   ((c.g * c.a.group_heads + row) * c.a.max_slices * 6 + quarter * 2)
             : nullptr;
  }
  __device__ __forceinline__ void send(int first, int count, int slot, float reference,
                                       uint2 p) const {
    float sums[4] = {};
    const std::uint32_t a[4] = {p.x, 0U, p.y, 0U};
    multiply_m16n8k16(sums, a, times[0], times[1]);
    if (to != nullptr && slot * kSliceKeys < count) {
      const bool last = static_cast<int>(threadIdx.x) % 4 == 2;
      send_packets(to + (first / kSliceKeys + slot) * 6, sums[0], last ? reference : sums[1],
                   epoch);
    }
  }
};

}  // namespace versieve::kernels
