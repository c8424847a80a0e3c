// How a CTA of decode_layers finds the node's blocks: each CTA that attends chosen blocks works out
// all of the KV head's by itself, from the packets of those that attended spans. Sums, factors and
// ties are those of nsa_verify/fused_select.cuh and fused_merge.cuh.
#pragma once

#include "kernels/decode_layers/attend.cuh"
#include "kernels/nsa_verify/fused_select.cuh"

namespace versieve::kernels {

// The compressed branch of each query head: greatest reference and 1 / sum.
__device__ __forceinline__ void find_head_states(const DecodeCta& c, int spans, const uint2* mail,
                                                 unsigned epoch) {
  const DecodeArguments& a = c.a;
  DecodeShared& shared = c.shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int parts = kSegments + a.max_spans;
#pragma unroll 1
  for (int i = thread; i < a.group_heads * kMostDecodeSpans; i += kComputeThreads) {
    const int head = i / kMostDecodeSpans;
    const int span = i % kMostDecodeSpans;
    if (span < spans) {
      const int at = (c.g * a.group_heads + head) * parts + kSegments + span;
      const uint4 x = receive(mail + a.mail.part_states + at * 2, epoch);
      shared.span_state[head][span] = make_float2(__uint_as_float(x.x), __uint_as_float(x.z));
    }
  }
  compute_sync();
  if (thread % 32 == 0 && thread / 32 < a.group_heads) {
    const float2* const states = shared.span_state[thread / 32];
    float most = kNoReference;
#pragma unroll 4
    for (int span = 0; span < spans; ++span) {
      most = states[span].y > 0.0F ? fmaxf(most, states[span].x) : most;
    }
    float total = 0.0F;
    float join = 0.0F;
#pragma unroll 4
    for (int span = 0; span < spans; ++span) {
      const float2 state = states[span];
      join += state.y > 0.0F ? multiply_flushed(state_weight(state.x, most), state.y) : 0.0F;
      if (ends_join(span) || span + 1 == spans) {
        total += join;
        join = 0.0F;
      }
    }
    shared.head_state[thread / 32] =
        make_float2(most, total > 0.0F ? __fdividef(1.0F, total) : 0.0F);
  }
}

// Importance of blocks 4 slice .. 4 slice + 3 from packets that have come, heads in their order.
__device__ __forceinline__ void add_head(float2 state, const uint4 (&own)[3], const uint4& before,
                                         float (&sum)[4]) {
  const auto number = [](std::uint32_t x) { return __uint_as_float(x); };
  const float reach =
      multiply_flushed(number(before.x),
                       multiply_flushed(state_weight(number(before.z), state.x), state.y));
  const float factor = multiply_flushed(state_weight(number(own[2].z), state.x), state.y);
  sum[0] += multiply_flushed(number(own[0].x), factor) + reach;
  sum[1] += multiply_flushed(number(own[0].z), factor);
  sum[2] += multiply_flushed(number(own[1].x), factor);
  sum[3] += multiply_flushed(number(own[1].z), factor);
}

// Importance of all blocks as keys to rank by (0: not to be ranked).
__device__ __forceinline__ void find_importance(const DecodeCta& c, const DecodePosition& at,
                                                const uint2* mail, unsigned epoch,
                                                unsigned* keys) {
  const DecodeArguments& a = c.a;
  const int own = at.position >> a.block_bits;
  const int initial = min(a.init_blocks, own + 1);
  const int first_local = max(initial, own - a.local_blocks + 1);
  const int slices = (own + 4) / 4;
  bool met = false;
#pragma unroll 1
  for (int base = 0; base < slices || !met; base += kComputeThreads) {
    const int slice = base + static_cast<int>(threadIdx.x);
    const bool works = slice < slices;
    const bool here = works && slice * kSliceKeys < at.seen;
    const bool before = works && slice > 0 && (slice - 1) * kSliceKeys < at.seen;
    const uint4 none = make_uint4(0U, 0U, __float_as_uint(kNoReference), 0U);
    float sum[4] = {};
#pragma unroll 1
    for (int first = 0; first < a.group_heads; first += 4) {  // packets of four heads fly together
      uint4 mine[4][3];
      uint4 last[4];
      const uint2* const from =
          mail + a.mail.weights + ((c.g * a.group_heads + first) * a.max_slices + slice) * 6;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        mine[i][0] = mine[i][1] = mine[i][2] = last[i] = none;
        if (first + i < a.group_heads) {
          const uint2* const head = from + i * a.max_slices * 6;
          if (here) {
#pragma unroll
            for (int j = 0; j < 3; ++j) {
              mine[i][j] = load_packets(head + 2 * j);
            }
          }
          if (before) {
            last[i] = load_packets(head - 2);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + i < a.group_heads) {
          const uint2* const head = from + i * a.max_slices * 6;
#pragma unroll
          for (int j = 0; j < 3; ++j) {
            if (here && !arrived(mine[i][j], epoch)) {
              mine[i][j] = receive(head + 2 * j, epoch);
            }
          }
          if (before && !arrived(last[i], epoch)) {
            last[i] = receive(head - 2, epoch);
          }
        }
      }
      if (!met) {
        met = true;
        compute_sync();  // the heads' states are there
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + i < a.group_heads) {
          add_head(c.shared.head_state[first + i], mine[i], last[i], sum);
        }
      }
    }
    if (works) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int block = slice * 4 + i;
        if (block <= own) {
          const bool candidate = block >= initial && block < first_local;
          keys[block] = candidate ? __float_as_uint(sum[i]) + 1U : 0U;
        }
      }
    }
  }
  compute_sync();
}

// The `wanted` best of keys[0, blocks) into chosen: bound by the threads' maxima, then ranked by
// counting. All computing warps.
__device__ __forceinline__ void take_best(const DecodeCta& c, unsigned* keys, int blocks,
                                          int wanted, std::int32_t* chosen) {
  DecodeShared& shared = c.shared;
  const int thread = static_cast<int>(threadIdx.x);
  unsigned* const most_of = reinterpret_cast<unsigned*>(shared.span_state);  // read before
  unsigned most = 0U;
#pragma unroll 1
  for (int block = thread; block < blocks; block += kComputeThreads) {
    most = max(most, keys[block]);
  }
  most_of[thread] = most;
  if (thread == 0) {
    shared.candidate_count = 0;
    most_of[kComputeThreads] = 1U;
  }
  compute_sync();
  if (wanted <= kComputeThreads) {
    int ahead = 0;
#pragma unroll 8
    for (int i = 0; i < kComputeThreads; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(most_of + i);
      const unsigned other[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        ahead += other[j] > most || (other[j] == most && i + j < thread) ? 1 : 0;
      }
    }
    if (ahead == wanted - 1) {
      most_of[kComputeThreads] = max(1U, most);
    }
  }
  compute_sync();
  const unsigned bound = most_of[kComputeThreads];
#pragma unroll 1
  for (int block = thread; block < blocks; block += kComputeThreads) {
    if (keys[block] >= bound) {
      const int place = atomicAdd(&shared.candidate_count, 1);
      if (place < kMostCandidates) {
        shared.candidates[place] = make_uint2(keys[block], static_cast<unsigned>(block));
      }
    }
  }
  compute_sync();
  const int count = shared.candidate_count;
  if (count > kMostCandidates) {
    if (thread < 32) {
      take_best_by_rounds(keys, blocks, wanted, chosen);
    }
  } else if (thread < count) {
    const uint2 mine = shared.candidates[thread];
    int rank = 0;
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const uint2 other = shared.candidates[i];
      rank += other.x > mine.x || (other.x == mine.x && other.y < mine.y) ? 1 : 0;
    }
    if (rank < wanted) {
      chosen[rank] = static_cast<std::int32_t>(mine.y);
    }
  }
}

// The node's blocks, ascending, into shared.sorted; those past the last are -1.
__device__ __forceinline__ void choose_blocks(const DecodeCta& c, const DecodePosition& at,
                                              unsigned* keys) {
  const DecodeArguments& a = c.a;
  DecodeShared& shared = c.shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int own = at.position >> a.block_bits;
  const int initial = min(a.init_blocks, own + 1);
  const int first_local = max(initial, own - a.local_blocks + 1);
  const int forced = initial + own + 1 - first_local;
  const int wanted = min(a.sel_count, own + 1);
#pragma unroll 1
  for (int i = thread; i < min(forced, kMostDecodeChosen); i += kComputeThreads) {
    shared.chosen[i] = i < initial ? i : first_local + i - initial;
  }
  if (wanted > forced) {
    take_best(c, keys, own + 1, wanted - forced, shared.chosen + forced);
  }
  compute_sync();
  if (thread < a.sel_count) {
    int rank = thread;
    if (thread < wanted) {
      rank = 0;
#pragma unroll 4
      for (int other = 0; other < wanted; ++other) {
        rank += shared.chosen[other] < shared.chosen[thread] ? 1 : 0;
      }
    }
    shared.sorted[rank] = thread < wanted ? shared.chosen[thread] : -1;
  }
  compute_sync();
}

// Tiles of the chosen blocks whose number is this CTA's segment modulo the segments; warp 0.
__device__ __forceinline__ void list_segment(const DecodeCta& c, const DecodePosition& at) {
  const DecodeArguments& a = c.a;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int count = 0;
#pragma unroll 1
  for (int base = 0; base < a.sel_count; base += 32) {
    const int i = base + lane;
    const int block = i < a.sel_count ? c.shared.sorted[i] : -1;
    const bool here = block >= 0 && block % kSelectedSegments == c.index &&
                      (block << a.block_bits) <= at.position;
    const unsigned found = __ballot_sync(0xFFFFFFFFU, here);
    if (here) {
      c.shared.tiles[count + __popc(found & ((1U << lane) - 1U))] = block << a.block_bits;
    }
    count += __popc(found);
  }
  if (lane == 0) {
    c.shared.tile_count = count;
  }
  __syncwarp();
}

// A piece of chosen blocks into the stages kept for them, all of whose barriers take part; one
// thread.
template <int kD>
__device__ __forceinline__ void load_chosen(const DecodeCta& c, const DecodeTable* t, int base,
                                            int tiles) {
  constexpr int kPanels = kD / 64;
#pragma unroll 1
  for (int i = 0; i < kChosenStages; ++i) {
    const int unit = i / kPanels;
    const std::uint32_t full = c.chosen_full_at + static_cast<std::uint32_t>(i * 8);
    if (unit >= 2 * tiles) {
      barrier_arrive(full);
      continue;
    }
    const bool is_value = unit >= tiles;
    const int tile = base + unit - (is_value ? tiles : 0);
    barrier_expect(full, kStageBytes);
    copy_cache_box(c.stage(c.stages + i), is_value ? &t->v : &t->k, i % kPanels * 64, c.g,
                   c.shared.tiles[tile], full);
  }
}

// The segment of chosen blocks. `turn`: parity of the chosen stages, flipped with every use.
// `loaded`: the first piece has been asked for.
template <int kD>
__device__ __forceinline__ void attend_chosen(const DecodeCta& c, const DecodePosition& at,
                                              const DecodeTable* t, const DecodeRows<kD>& rows,
                                              bool loaded, int& turn, uint2* mail,
                                              unsigned epoch) {
  constexpr int kPiece = kChosenStages / 2 / (kD / 64);
  const DecodeShared& shared = c.shared;
  PartState<kD> state;
  const int count = shared.tile_count;
#pragma unroll 1
  for (int base = 0; base < count; base += kPiece) {
    const int tiles = min(count - base, kPiece);
    if (!(loaded && base == 0) && threadIdx.x == 0) {
      load_chosen<kD>(c, t, base, tiles);
    }
    const PieceStages<kD> stages{c, StageCursor{0, turn}, tiles, true};
    attend_piece(
        c, rows, stages, [&](int tile) { return shared.tiles[base + tile]; }, kTileKeys, 0,
        at.position + 1, at.position, shared.own, state, DecodeKeepNothing{});
    turn ^= 1;
  }
  send_part(c, c.index, mail, state, epoch);
}

}  // namespace versieve::kernels
