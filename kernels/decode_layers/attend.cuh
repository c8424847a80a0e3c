// Parts of a KV head's attention in decode_layers: a span of compressed tokens, a segment of the
// window or of the chosen blocks, by all eight warps of a CTA. The sums are those of
// nsa_verify/fused_lone.cuh: each warp scores a tile of 64 keys, then each takes 8 columns of the
// values over all slices of 16 keys in ascending order. A part's softmax reference is an integer
// power of two, so which one it is never shows.
#pragma once

#include "kernels/decode_layers/piece.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/mma.cuh"

namespace versieve::kernels {

// A piece: up to eight tiles (four of wide heads), of which this warp scores the one that begins at
// key `first`. keeps: for importance. summed(): the sums of all weights so far are there, in warp
// 0. All computing warps.
template <int kD, class Summed>
__device__ __forceinline__ void attend_piece(const DecodeCta& c, const DecodeRows<kD>& rows,
                                             const PieceStages<kD>& stages, int first,
                                             const PartTiles& part, const Bf16 (*own)[128],
                                             PartState<kD>& state, const DecodeKeepBlocks& keep,
                                             bool keeps, const Summed& summed) {
  DecodeShared& shared = c.shared;
  const PieceWeights weights(shared.work);
  const int warp = c.warp;
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
      if (keeps) {
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
  const auto add_sums = [&](int tile) {
#pragma unroll
    for (int n = 0; n < kTileKeys / 8; ++n) {
      state.sum += weights.pairs[(tile * 8 + n) * 32 + lane];
    }
  };
  if (warp == 0 && keeps) {  // before the outputs: blocks are chosen by them
#pragma unroll 1
    for (int tile = 0; tile < stages.tiles; ++tile) {
      add_sums(tile);
    }
    summed();
  }
  stages.wait_all();
#pragma unroll 1
  for (int tile = 0; tile < stages.tiles; ++tile) {
#pragma unroll
    for (int slots = 0; slots < kSlots; slots += 2) {
#pragma unroll
      for (int i = 0; i < PartState<kD>::kColumns; ++i) {
        std::uint32_t b[4];
        load_matrices_x4_transposed(
            swizzled_chunk<128>(stages.panel(tile, true, i), slots * kSliceKeys + lane, warp), b);
#pragma unroll
        for (int slot = 0; slot < 2; ++slot) {
          const uint2 p = weights.packed[(tile * kSlots + slots + slot) * 32 + lane];
          const std::uint32_t a[4] = {p.x, 0U, p.y, 0U};
          multiply_m16n8k16(state.out[i], a, b[slot * 2], b[slot * 2 + 1]);
        }
      }
    }
    if (warp == 0 && !keeps) {
      add_sums(tile);
    }
  }
  if (warp == 0 && !keeps) {
    summed();
  }
  compute_sync();
  if (warp == 0) {
    stages.release();
  }
}

// Where a row's packets of a part are, in states.
__device__ __forceinline__ int part_row(const DecodeCta& c, int part) {
  const int row = static_cast<int>(threadIdx.x) % 32 / 4;
  return (c.g * c.a.group_heads + row) * (kSegments + c.a.max_spans) + part;
}
// A part's reference and sum as packets, ahead of its outputs: blocks are chosen by them. Warp 0.
template <int kD>
__device__ __forceinline__ void send_state(const DecodeCta& c, int part, uint2* mail,
                                           const PartState<kD>& state, unsigned epoch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = state.sum;
  sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
  sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
  if (lane % 4 == 0 && lane / 4 < c.a.group_heads) {
    send_packets(mail + c.a.mail.part_states + part_row(c, part) * 2, state.reference, sum, epoch);
  }
}
// A finished part's outputs.
template <int kD>
__device__ __forceinline__ void send_outputs(const DecodeCta& c, int part, uint2* mail,
                                             const PartState<kD>& state, unsigned epoch) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane / 4 < c.a.group_heads) {
#pragma unroll
    for (int i = 0; i < PartState<kD>::kColumns; ++i) {
      send_packets(
          mail + c.a.mail.part_outs + part_row(c, part) * kD + i * 64 + c.warp * 8 + lane % 4 * 2,
          state.out[i][0], state.out[i][1], epoch);
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
    copy_box_3d(c.stage(ring.ahead(i / kStageBoxes).place) +
                    static_cast<std::uint32_t>(i % kStageBoxes * kBoxBytes),
                is_value ? &t->v : &t->k, i % kPanels * 64, c.g,
                row_in_page(c.a.pages[0], c.shared.sorted_tiles[tile]), c.chosen_full_at);
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
                                            int number, bool chosen, const Bf16 (*own)[128],
                                            StageCursor& ring, int& turn,
                                            const DecodeKeepBlocks& keep, bool keeps, uint2* mail,
                                            unsigned epoch) {
  const int most = chosen ? chosen_piece(kD) : kComputeWarps / (kD / 64);
  const int warp = c.warp;
  PartState<kD> state;
#pragma unroll 1
  for (int base = 0; base < part.count; base += most) {
    const int tiles = min(part.count - base, most);
    if (chosen && base > 0 && warp == 0) {
      load_chosen<kD>(c, t, ring, base, tiles);
    }
    const int tile = base + min(warp, tiles - 1);
    const int first = chosen ? c.shared.sorted_tiles[tile] : part.first + tile * part.apart;
    const PieceStages<kD> stages{c, ring, tiles, chosen, turn};
    const bool ends = base + tiles == part.count;
    attend_piece(c, rows, stages, first, part, own, state, keep, keeps, [&] {
      if (ends) {
        send_state(c, number, mail, state, epoch);
      }
    });
    if (chosen) {
      turn ^= 1;
    } else {
      ring.advance(stages.stages());
    }
  }
  if (part.count == 0 && warp == 0) {
    send_state(c, number, mail, state, epoch);
  }
  send_outputs(c, number, mail, state, epoch);
  if (chosen) {
    if (warp == 0) {
      free_chosen(c, ring);
    }
    ring.advance(kChosenStages);
  }
}

}  // namespace versieve::kernels
