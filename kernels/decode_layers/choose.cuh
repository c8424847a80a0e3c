// How a CTA of decode_layers finds the node's blocks: each CTA that attends chosen blocks works out
// all of the KV head's by itself, from the packets of those that attended spans. Sums, factors and
// ties are those of nsa_verify/fused_select.cuh and fused_merge.cuh.
#pragma once

#include "kernels/decode_layers/attend.cuh"
#include "kernels/decode_layers/merge.cuh"
#include "kernels/nsa_verify/fused_select.cuh"
#include "kernels/ptx/bulk_copy.cuh"

namespace versieve::kernels {

// The compressed branch of each query head: greatest reference and 1 / sum.
__device__ __forceinline__ void find_head_states(const DecodeCta& c, int spans, const uint2* mail,
                                                 unsigned epoch) {
  const DecodeArguments& a = c.a;
  DecodeShared& shared = c.shared;
  const int warp = c.warp;  // a query head's
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (warp < a.group_heads) {
    const int first = (c.g * a.group_heads + warp) * (kSegments + a.max_spans) + kSegments;
    float2* const states = shared.span_state[warp];
    float most = kNoReference;
#pragma unroll 1
    for (int span = lane; span < spans; span += 32) {
      const uint4 x = receive(mail + a.mail.part_states + (first + span) * 2, epoch);
      const float2 state = make_float2(__uint_as_float(x.x), __uint_as_float(x.z));
      states[span] = state;
      most = state.y > 0.0F ? fmaxf(most, state.x) : most;
    }
    most = warp_most(most);
#pragma unroll 1
    for (int span = lane; span < spans; span += 32) {
      const float2 state = states[span];
      states[span].y =
          state.y > 0.0F ? multiply_flushed(state_weight(state.x, most), state.y) : 0.0F;
    }
    __syncwarp();
    float total = 0.0F;
    float join = 0.0F;
#pragma unroll 1
    for (int span = 0; span < spans; ++span) {
      join += states[span].y;
      if (ends_join(span) || span + 1 == spans) {
        total += join;
        join = 0.0F;
      }
    }
    if (lane == 0) {
      shared.head_state[warp] = make_float2(most, total > 0.0F ? __fdividef(1.0F, total) : 0.0F);
    }
  }
}

// Importance of blocks 4 slice .. 4 slice + 3 from a head's packets: of the slice (`here`: it has
// some), and the last of the slice before (`before`).
__device__ __forceinline__ void add_head(float2 state, const uint4 (&own)[4], bool here,
                                         bool before, float (&sum)[4]) {
  const auto number = [](std::uint32_t x) { return __uint_as_float(x); };
  const auto factor_of = [&](const uint4& last, bool counts) {
    return counts ? multiply_flushed(state_weight(number(last.z), state.x), state.y) : 0.0F;
  };
  const float reach = multiply_flushed(number(own[3].x), factor_of(own[3], before));
  const float factor = factor_of(own[2], here);
  sum[0] += multiply_flushed(number(own[0].x), factor) + reach;
  sum[1] += multiply_flushed(number(own[0].z), factor);
  sum[2] += multiply_flushed(number(own[1].x), factor);
  sum[3] += multiply_flushed(number(own[1].z), factor);
}

// Importance of all blocks as keys to rank by, forced ones before all others. Ends with a barrier.
__device__ __forceinline__ void find_importance(const DecodeCta& c, const DecodePosition& at,
                                                int spans, const uint2* mail, unsigned epoch,
                                                unsigned* keys) {
  constexpr int kFlying = 4;  // heads whose packets are under way together
  const DecodeArguments& a = c.a;
  const int own = at.position >> a.block_bits;
  const int initial = min(a.init_blocks, own + 1);
  const int first_local = max(initial, own - a.local_blocks + 1);
  const int slices = (own + 4) / 4;
  find_head_states(c, spans, mail, epoch);
  // Warps that find no head's state take slices first.
  const int place = (static_cast<int>(threadIdx.x) + kComputeThreads / 2) % kComputeThreads;
#pragma unroll 1
  for (int base = 0; base < slices; base += kComputeThreads) {
    const int slice = base + place;
    const bool works = slice < slices;
    const bool here = works && slice * kSliceKeys < at.seen;
    const bool before = works && slice > 0 && (slice - 1) * kSliceKeys < at.seen;
    const int pitch = a.max_slices * 6;
    const int last = max(slice - 1, 0);
    const int own_slice = here ? slice : last;
    float sum[4] = {};
#pragma unroll 1
    for (int first = 0; first < a.group_heads; first += kFlying) {
      const uint2* const from = mail + a.mail.weights + (c.g * a.group_heads + first) * pitch;
      uint4 packet[kFlying][4];  // of the slice, and the last one of the slice before
      if (here || before) {
        if (first == 0) {  // one packet a lane until it is there: all heads' come together
          while (!arrived(load_epochs(from + own_slice * 6 + 4), epoch)) {
          }
        }
        bool waits;
        do {
          waits = false;
#pragma unroll
          for (int i = 0; i < kFlying; ++i) {
            const uint2* const head = from + min(i, a.group_heads - 1 - first) * pitch;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              packet[i][j] = load_packets(head + (j < 3 ? own_slice * 6 + 2 * j : last * 6 + 4));
            }
          }
#pragma unroll
          for (int i = 0; i < kFlying; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              waits |= !arrived(packet[i][j], epoch);
            }
          }
        } while (waits);
      }
      if (base == 0 && first == 0) {
        compute_sync();  // heads' states
      }
#pragma unroll
      for (int i = 0; i < kFlying; ++i) {
        if (first + i < a.group_heads && (here || before)) {
          add_head(c.shared.head_state[first + i], packet[i], here, before, sum);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int block = slice * 4 + i;
      if (works && block <= own) {
        const bool forced = block < initial || block >= first_local;
        keys[block] = forced ? 0xFFFFFFFFU : __float_as_uint(sum[i]) + 1U;
      }
    }
  }
  compute_sync();
}

// The best blocks, in any order: a lane of every warp has one or -1, if they are no more than
// lanes.
struct ChosenBlocks {
  int of_lane;
  bool in_memory;  // alone: they are more, and in shared.chosen
};

// The `wanted` best of keys[0, blocks). Of the largest lanes' maxima of each warp, four or more,
// the `wanted`-th one: at least `wanted` keys reach that, and not many more; those are ranked by
// counting. All computing warps. Ends with a barrier.
__device__ __forceinline__ ChosenBlocks take_best(const DecodeCta& c, unsigned* keys, int blocks,
                                                  int wanted) {
  DecodeShared& shared = c.shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = c.warp;
  const int lane = thread % 32;
  unsigned* const bounds = reinterpret_cast<unsigned*>(shared.span_state);
  unsigned most = 0U;
#pragma unroll 1
  for (int block = lane * kComputeWarps + warp; block < blocks; block += kComputeThreads) {
    most = max(most, keys[block]);
  }
  const int each = max((wanted + kComputeWarps - 1) / kComputeWarps, 32 / kComputeWarps);
  unsigned bound = 0U;
#pragma unroll 1
  for (int i = 0; i < each; ++i) {
    bound = __reduce_max_sync(0xFFFFFFFFU, most);
    const unsigned holders = __ballot_sync(0xFFFFFFFFU, most == bound);
    most = lane == __ffs(static_cast<int>(holders)) - 1 ? 0U : most;
    if (lane == 0) {
      bounds[(each - 1 - i) * kComputeWarps + warp] = bound;
    }
  }
  if (warp == 0) {
    shared.candidate_count = 0;
  }
  compute_sync();
  if (wanted <= 32) {  // the wanted-th of them, found by the warp to whose share it belongs
    const unsigned own = bounds[lane];
#pragma unroll
    for (int i = 0; i < 32 / kComputeWarps; ++i) {
      const int at = warp * (32 / kComputeWarps) + i;
      const unsigned other = bounds[at];
      const unsigned before =
          __ballot_sync(0xFFFFFFFFU, own > other || (own == other && lane < at));
      if (lane == 0 && __popc(before) == wanted - 1) {
        shared.bound = other;
      }
    }
    compute_sync();
    bound = shared.bound;
  } else {
#pragma unroll
    for (int i = 0; i < kComputeWarps; ++i) {
      bound = min(bound, bounds[i]);
    }
  }
  bound = max(bound, 1U);
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
  if (count <= 32) {  // each warp ranks some of them, against those of its lanes
    const uint2 own = lane < count ? shared.candidates[lane] : make_uint2(0U, 0U);
#pragma unroll
    for (int i = 0; i < 32 / kComputeWarps; ++i) {
      const int at = warp * (32 / kComputeWarps) + i;
      const uint2 other = shared.candidates[at];
      const int rank = __popc(
          __ballot_sync(0xFFFFFFFFU, own.x > other.x || (own.x == other.x && own.y < other.y)));
      if (lane == 0 && at < count && rank < wanted) {
        shared.chosen[rank] = static_cast<std::int32_t>(other.y);
      }
    }
    compute_sync();
    return {lane < wanted ? shared.chosen[lane] : -1, wanted > 32};
  }
  if (count > kMostCandidates) {
    if (warp == 0) {
      take_best_by_rounds(keys, blocks, wanted, shared.chosen);
    }
  } else if (thread < count) {
    const uint2 mine = shared.candidates[thread];
    int rank = 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const uint2 other = shared.candidates[i];
      rank += other.x > mine.x || (other.x == mine.x && other.y < mine.y) ? 1 : 0;
    }
    if (rank < wanted) {
      shared.chosen[rank] = static_cast<std::int32_t>(mine.y);
    }
  }
  compute_sync();
  return {wanted <= 32 && lane < wanted ? shared.chosen[lane] : -1, wanted > 32};
}

// Tiles of the chosen blocks whose number is this CTA's segment modulo the segments, ascending;
// warp 0.
__device__ __forceinline__ void list_segment(const DecodeCta& c, const DecodePosition& at) {
  const DecodeArguments& a = c.a;
  std::int32_t* const tiles = c.shared.tiles;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int blocks = min(a.sel_count, (at.position >> a.block_bits) + 1);
  int count = 0;
#pragma unroll 1
  for (int base = 0; base < blocks; base += 32) {
    const int block = base + lane < blocks ? c.shared.chosen[base + lane] : 0;
    const bool here = base + lane < blocks && block % kSelectedSegments == c.index;
    const unsigned found = __ballot_sync(0xFFFFFFFFU, here);
    if (here) {
      tiles[count + __popc(found & ((1U << lane) - 1U))] = block << a.block_bits;
    }
    count += __popc(found);
  }
  __syncwarp();
#pragma unroll 1
  for (int base = 0; base < count; base += 32) {  // more than a round: only if all are of a kind
    const int mine = tiles[min(base + lane, count - 1)];
    int place = 0;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      place += tiles[i] < mine ? 1 : 0;
    }
    if (base + lane < count) {
      c.shared.sorted_tiles[place] = mine;
    }
  }
  if (lane == 0) {
    c.shared.tile_count = count;
  }
  __syncwarp();
}

// The copies of a piece's tile of chosen blocks; one lane.
template <int kD>
__device__ __forceinline__ void load_tile(const DecodeCta& c, const DecodeTable* t,
                                          const StageCursor& ring, int tile, int tiles, int key) {
  constexpr int kPanels = kD / 64;
#pragma unroll 1
  for (int i = 0; i < 2 * kPanels; ++i) {
    const bool is_value = i >= kPanels;
    const int box = (tile + (is_value ? tiles : 0)) * kPanels + i % kPanels;
    const StageCursor at = ring.ahead(box / kStageBoxes);
    barrier_wait(c.empty(at.place), at.parity ^ 1);
    copy_box_3d(c.stage(at.place) + static_cast<std::uint32_t>(box % kStageBoxes * kBoxBytes),
                is_value ? &t->v : &t->k, i % kPanels * 64, c.g, row_in_page(c.a.pages[0], key),
                c.chosen_full_at);
  }
}

// The node's blocks: those whose number is this CTA's segment modulo the segments into the list of
// tiles, ascending, and the first piece of them asked for, a tile by a warp. All computing warps.
template <int kD>
__device__ __forceinline__ void choose_segment(const DecodeCta& c, const DecodePosition& at,
                                               const DecodeTable* t, const StageCursor& ring,
                                               int spans, const uint2* mail, unsigned epoch) {
  DecodeShared& shared = c.shared;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int own = at.position >> c.a.block_bits;
  unsigned* const keys = reinterpret_cast<unsigned*>(shared.work);
  find_importance(c, at, spans, mail, epoch, keys);
  const ChosenBlocks blocks = take_best(c, keys, own + 1, min(c.a.sel_count, own + 1));
  if (blocks.in_memory) {
    if (c.warp == 0) {
      list_segment(c, at);
      if (shared.tile_count > 0) {
        load_chosen<kD>(c, t, ring, 0, min(shared.tile_count, chosen_piece(kD)));
      }
    }
    return;
  }
  const int block = blocks.of_lane;
  const bool here = block >= 0 && block % kSelectedSegments == c.index;
  const unsigned found = __ballot_sync(0xFFFFFFFFU, here);
  const int count = __popc(found);
  const int piece = min(count, chosen_piece(kD));
  int place = 0;
#pragma unroll 1
  for (unsigned left = found; left != 0U; left &= left - 1U) {
    place += __shfl_sync(0xFFFFFFFFU, block, __ffs(static_cast<int>(left)) - 1) < block ? 1 : 0;
  }
  const int key = block << c.a.block_bits;
  if (c.warp == 0) {
    if (lane == 0) {
      shared.tile_count = count;
      if (count > 0) {
        barrier_expect(c.chosen_full_at, 2 * piece * (kD / 64) * kBoxBytes);
      }
    }
    if (here) {
      shared.sorted_tiles[place] = key;
    }
  }
  if (here && place == c.warp && place < piece) {
    load_tile<kD>(c, t, ring, place, piece, key);
  }
  __syncwarp();
}

// All of them, ascending, those past the last -1, into shared.sorted; warps from 1 on.
__device__ __forceinline__ void sort_chosen(const DecodeCta& c, const DecodePosition& at) {
  const int i = static_cast<int>(threadIdx.x) - 32;
  const int blocks = min(c.a.sel_count, (at.position >> c.a.block_bits) + 1);
  if (i >= 0 && i < c.a.sel_count) {
    int rank = i;
    if (i < blocks) {
      rank = 0;
#pragma unroll 4
      for (int other = 0; other < blocks; ++other) {
        rank += c.shared.chosen[other] < c.shared.chosen[i] ? 1 : 0;
      }
    }
    c.shared.sorted[rank] = i < blocks ? c.shared.chosen[i] : -1;
  }
}

}  // namespace versieve::kernels
