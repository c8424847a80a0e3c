// Parts of a KV head's attention in decode_layers: a span of compressed tokens, a segment of the
// window or of the chosen blocks, by all eight warps of a CTA. The sums are those of
// nsa_verify/fused_lone.cuh: each warp scores a tile of 64 keys, then each takes 8 columns of the
// values over all slices of 16 keys in ascending order. A part's softmax reference is an integer
// power of two, so which one it is never shows.
#pragma once

#include "kernels/decode_layers/products.cuh"
#include "kernels/nsa_verify/fused_rows.cuh"

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
    const int i = box(tile, values, panel);
    const int stage = i / kStageBoxes;
    return c.stage(first.ahead(stage).place) +
           static_cast<std::uint32_t>(i % kStageBoxes * kBoxBytes);
  }
  // All panels of a tile lie in one stage.
  __device__ __forceinline__ void wait(int tile, bool values) const {
    wait_stage(box(tile, values, 0) / kStageBoxes);
  }
  __device__ __forceinline__ void wait_stage(int stage) const {
    const StageCursor at = first.ahead(stage);
    barrier_wait(chosen ? c.chosen_full_at : c.full(at.place), chosen ? turn : at.parity);
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

// Address of chunk `chunk` (8 elements) of row `row` of a panel, as the copy engine places it.
__device__ __forceinline__ std::uint32_t panel_chunk(std::uint32_t panel, int row, int chunk) {
  return panel + static_cast<std::uint32_t>(row * 128 + ((chunk ^ (row & 7)) * 16));
}

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
      const std::uint32_t at =
          panel_chunk(stages.panel(tile, false, step / 4), row, step % 4 * 2 + lane / 8 % 2);
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
      const std::uint32_t at = panel_chunk(stages.panel(tile, values, lane / 8), row, lane % 8);
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(at), "r"(x.x), "r"(x.y),
                   "r"(x.z), "r"(x.w)
                   : "memory");
    }
    fence_for_copies();  // the stage will be copied into again
    __syncwarp();
  }
}

// Sends the sums of weights that the importance of blocks needs (nsa_verify/fused_route.cuh): of
// each slice of 16 compressed tokens its four blocks, its last token, and the reference.
struct DecodeKeepBlocks {
  bool keeps;
  uint2* to;  // of this lane's row and quarter, slice 0; null: nowhere
  unsigned epoch;
  std::uint32_t times[2];

  __device__ __forceinline__ DecodeKeepBlocks(const DecodeCta& c, uint2* mail, bool wanted,
                                              unsigned layer_epoch)
      : keeps(wanted), epoch(layer_epoch) {
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
    to = keeps && row < c.a.group_heads && quarter < 3
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

// A piece: up to eight tiles (four of wide heads), of which this warp scores the one that begins at
// key `first`. All computing warps.
template <int kD>
__device__ __forceinline__ void attend_piece(const DecodeCta& c, const DecodeRows<kD>& rows,
                                             const PieceStages<kD>& stages, int first,
                                             const PartTiles& part, const Bf16 (*own)[128],
                                             PartState<kD>& state, const DecodeKeepBlocks& keep) {
  DecodeShared& shared = c.shared;
  const PieceWeights weights(shared.work);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = lane / 4;
  const bool scores = warp < stages.tiles;
  const float scale = 1.4426950408889634F * rsqrtf(static_cast<float>(c.a.head_dim));
  float s[kTileKeys / 8][4];
  const int count = min(kTileKeys, part.end - first);
  const int own_row = part.own >= first && part.own < first + count ? part.own - first : -1;
  if (scores) {
    stages.wait(warp, false);
    place_own(stages, warp, false, own_row, own[0]);
    rows.score(stages, warp, s);
    float most = __int_as_float(0xFF800000);
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int key = n * 8 + lane % 4 * 2 + e;
        const bool seen = key < count && first + key >= part.low;
        s[n][e] = seen ? fmaf(s[n][e], scale, Rows<kD>::kGrid) : __int_as_float(0xFF800000);
        most = fmaxf(most, s[n][e]);
      }
    }
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
    if (lane % 4 == 0) {
      shared.tile_most[warp][row] = ceilf(most);
    }
  }
  compute_sync();
  float reference = state.reference;
#pragma unroll 1
  for (int tile = 0; tile < stages.tiles; ++tile) {
    reference = fmaxf(reference, shared.tile_most[tile][row]);
  }
  if (scores) {
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
      s[n][0] = exp2_flushed(s[n][0] - reference);
      s[n][1] = exp2_flushed(s[n][1] - reference);
      weights.pairs[(warp * 8 + n) * 32 + lane] = s[n][0] + s[n][1];
    }
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const uint2 p = make_uint2(pack_bf16(s[slot * 2][0], s[slot * 2][1]),
                                 pack_bf16(s[slot * 2 + 1][0], s[slot * 2 + 1][1]));
      weights.packed[(warp * kSlots + slot) * 32 + lane] = p;
      if (keep.keeps) {
        keep.send(first, count, slot, reference, p);
      }
    }
    stages.wait(warp, true);
    place_own(stages, warp, true, own_row, own[1]);
  }
  compute_sync();
  if (reference != state.reference) {
    const float factor = state_weight(state.reference, reference);
    state.sum *= factor;
#pragma unroll
    for (int i = 0; i < PartState<kD>::kColumns; ++i) {
      state.out[i][0] *= factor;
      state.out[i][1] *= factor;
    }
    state.reference = reference;
  }
#pragma unroll 1
  for (int stage = 0; stage < stages.stages(); ++stage) {  // what others saw come, this thread too
    stages.wait_stage(stage);
  }
#pragma unroll 1
  for (int tile = 0; tile < stages.tiles; ++tile) {
#pragma unroll
    for (int slots = 0; slots < kSlots; slots += 2) {
#pragma unroll
      for (int i = 0; i < PartState<kD>::kColumns; ++i) {
        std::uint32_t b[4];
        load_matrices_x4_transposed(
            panel_chunk(stages.panel(tile, true, i), slots * kSliceKeys + lane, warp), b);
#pragma unroll
        for (int slot = 0; slot < 2; ++slot) {
          const uint2 p = weights.packed[(tile * kSlots + slots + slot) * 32 + lane];
          const std::uint32_t a[4] = {p.x, 0U, p.y, 0U};
          multiply_m16n8k16(state.out[i], a, b[slot * 2], b[slot * 2 + 1]);
        }
      }
    }
    if (warp == 0) {
#pragma unroll
      for (int n = 0; n < kTileKeys / 8; ++n) {
        state.sum += weights.pairs[(tile * 8 + n) * 32 + lane];
      }
    }
  }
  compute_sync();
  if (warp == 0) {
    stages.release();
  }
}

// A finished part as packets: the heads' outputs, their reference and sum.
template <int kD>
__device__ __forceinline__ void send_part(const DecodeCta& c, int part, uint2* mail,
                                          PartState<kD>& state, unsigned epoch) {
  const DecodeArguments& a = c.a;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int parts = kSegments + a.max_spans;
  const int row = lane / 4;
  const int at = (c.g * a.group_heads + row) * parts + part;
  if (row < a.group_heads) {
#pragma unroll
    for (int i = 0; i < PartState<kD>::kColumns; ++i) {
      send_packets(mail + a.mail.part_outs + at * kD + i * 64 + warp * 8 + lane % 4 * 2,
                   state.out[i][0], state.out[i][1], epoch);
    }
  }
  if (warp == 0) {
    float sum = state.sum;
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    if (lane % 4 == 0 && row < a.group_heads) {
      send_packets(mail + a.mail.part_states + at * 2, state.reference, sum, epoch);
    }
  }
}

// Tiles of a piece of chosen blocks into the next stages of the ring, which the loading warp leaves
// out; one warp.
template <int kD>
__device__ __forceinline__ void load_chosen(const DecodeCta& c, const DecodeTable* t,
                                            const StageCursor& ring, int base, int tiles) {
  constexpr int kPanels = kD / 64;
  const int i = static_cast<int>(threadIdx.x) % 32;
  const int boxes = 2 * tiles * kPanels;
  if (i < kChosenStages) {
    const StageCursor at = ring.ahead(i);
    barrier_wait(c.empty(at.place), at.parity ^ 1);
  }
  if (i == 0) {
    barrier_expect(c.chosen_full_at, boxes * kBoxBytes);
  }
  __syncwarp();
  if (i < boxes) {
    const int unit = i / kPanels;
    const bool is_value = unit >= tiles;
    const int tile = base + unit - (is_value ? tiles : 0);
    copy_cache_box(c.stage(ring.ahead(i / kStageBoxes).place) +
                       static_cast<std::uint32_t>(i % kStageBoxes * kBoxBytes),
                   is_value ? &t->v : &t->k, i % kPanels * 64, c.g, c.shared.tiles[tile],
                   c.chosen_full_at);
  }
  __syncwarp();
}
// Those stages are read: as if the loading warp had filled them, and somebody had waited for it.
// One warp.
__device__ __forceinline__ void free_chosen(const DecodeCta& c, const StageCursor& ring) {
  const int i = static_cast<int>(threadIdx.x) % 32;
  if (i < kChosenStages) {
    const StageCursor at = ring.ahead(i);
    barrier_wait(c.empty(at.place), at.parity ^ 1);  // also where no block was loaded
    barrier_arrive(c.full(at.place));
    barrier_wait(c.full(at.place), at.parity);
    free_stage(c.empty(at.place));
  }
}

// A part, whose tiles come through the ring, or are chosen blocks; the first piece of those has
// been asked for. `turn`: parity of the chosen stages, flipped with every use.
template <int kD>
__device__ __forceinline__ void attend_part(const DecodeCta& c, const DecodeTable* t,
                                            const DecodeRows<kD>& rows, const PartTiles& part,
                                            int number, const Bf16 (*own)[128], StageCursor& ring,
                                            int& turn, const DecodeKeepBlocks& keep, uint2* mail,
                                            unsigned epoch) {
  const bool chosen = c.role == Role::kChosen;
  const int most = chosen ? chosen_piece(kD) : kComputeWarps / (kD / 64);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  PartState<kD> state;
#pragma unroll 1
  for (int base = 0; base < part.count; base += most) {
    const int tiles = min(part.count - base, most);
    if (chosen && base > 0 && warp == 0) {
      load_chosen<kD>(c, t, ring, base, tiles);
    }
    const int tile = base + min(warp, tiles - 1);
    const int first = chosen ? c.shared.tiles[tile] : part.first + tile * part.apart;
    const PieceStages<kD> stages{c, ring, tiles, chosen, turn};
    attend_piece(c, rows, stages, first, part, own, state, keep);
    if (chosen) {
      turn ^= 1;
    } else {
      ring.advance(stages.stages());
    }
  }
  send_part(c, number, mail, state, epoch);
  if (chosen) {
    if (warp == 0) {
      free_chosen(c, ring);
    }
    ring.advance(kChosenStages);
  }
}

}  // namespace versieve::kernels
