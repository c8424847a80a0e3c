// How a CTA of decode_layers finds the node's blocks: each CTA that attends chosen blocks works out
// all of the KV head's by itself, from the packets of those that attended spans. Sums, factors and
// ties are those of nsa_verify/fused_select.cuh and fused_merge.cuh.
#pragma once

#include "kernels/decode_layers/attend.cuh"
#include "kernels/decode_layers/merge.cuh"
#include "kernels/nsa_verify/fused_select.cuh"

namespace versieve::kernels {

// The compressed branch of each query head: greatest reference and 1 / sum. Ends with a barrier.
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
  compute_sync();
}

// Importance of blocks 4 slice .. 4 slice + 3 from packets that have come, heads in their order.
__device__ __forceinline__ void add_head(float2 state, const uint4 (&own)[4], float (&sum)[4]) {
  const uint4& before = own[3];
  const auto number = [](std::uint32_t x) { return __uint_as_float(x); };
  const float reach = multiply_flushed(
      number(before.x), multiply_flushed(state_weight(number(before.z), state.x), state.y));
  const float factor = multiply_flushed(state_weight(number(own[2].z), state.x), state.y);
  sum[0] += multiply_flushed(number(own[0].x), factor) + reach;
  sum[1] += multiply_flushed(number(own[0].z), factor);
  sum[2] += multiply_flushed(number(own[1].x), factor);
  sum[3] += multiply_flushed(number(own[1].z), factor);
}

// Importance of all blocks as keys to rank by (0: not to be ranked). Ends with a barrier.
__device__ __forceinline__ void find_importance(const DecodeCta& c, const DecodePosition& at,
                                                int spans, const uint2* mail, unsigned epoch,
                                                unsigned* keys) {
  constexpr int kFlying = 4;  // heads whose packets are under way together
  const DecodeArguments& a = c.a;
  const int own = at.position >> a.block_bits;
  const int initial = min(a.init_blocks, own + 1);
  const int first_local = max(initial, own - a.local_blocks + 1);
  const int slices = (own + 4) / 4;
  // States are sent behind weights: once they are here, so are those, mostly, and few lanes poll.
  find_head_states(c, spans, mail, epoch);
#pragma unroll 1
  for (int base = 0; base < slices; base += kComputeThreads) {
    const int slice = base + static_cast<int>(threadIdx.x);
    const bool works = slice < slices;
    const bool here = works && slice * kSliceKeys < at.seen;
    const bool before = works && slice > 0 && (slice - 1) * kSliceKeys < at.seen;
    float sum[4] = {};
#pragma unroll 1
    for (int first = 0; first < a.group_heads; first += kFlying) {
      const int pitch = a.max_slices * 6;
      const uint2* const from =
          mail + a.mail.weights + (c.g * a.group_heads + first) * pitch + slice * 6;
      uint4 packet[kFlying][4];  // of the slice, and the last one of the slice before
      bool waits;
      do {
        waits = false;
#pragma unroll
        for (int i = 0; i < kFlying; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const bool wanted = first + i < a.group_heads && (j < 3 ? here : before);
            packet[i][j] = make_uint4(0U, epoch, __float_as_uint(kNoReference), epoch);
            if (wanted) {
              packet[i][j] = load_packets(from + i * pitch + (j < 3 ? 2 * j : -2));
            }
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
#pragma unroll
      for (int i = 0; i < kFlying; ++i) {
        if (first + i < a.group_heads) {
          add_head(c.shared.head_state[first + i], packet[i], sum);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int block = slice * 4 + i;
      if (works && block <= own) {
        const bool candidate = block >= initial && block < first_local;
        keys[block] = candidate ? __float_as_uint(sum[i]) + 1U : 0U;
      }
    }
  }
  compute_sync();
}

// The `wanted` best of keys[0, blocks) into chosen. Each warp's second (third, ...) largest maximum
// of a lane, the least of them over the warps: at least `wanted` keys reach that, and not many
// more; those are ranked by counting. All computing warps.
__device__ __forceinline__ void take_best(const DecodeCta& c, unsigned* keys, int blocks,
                                          int wanted, std::int32_t* chosen) {
  DecodeShared& shared = c.shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  unsigned* const bounds = reinterpret_cast<unsigned*>(shared.span_state);
  unsigned most = 0U;
#pragma unroll 1
  for (int block = lane * kComputeWarps + warp; block < blocks; block += kComputeThreads) {
    most = max(most, keys[block]);
  }
  const int each = (wanted + kComputeWarps - 1) / kComputeWarps;
  unsigned bound = 0U;
#pragma unroll 1
  for (int i = 0; i < each; ++i) {
    bound = __reduce_max_sync(0xFFFFFFFFU, most);
    const unsigned holders = __ballot_sync(0xFFFFFFFFU, most == bound);
    most = lane == __ffs(static_cast<int>(holders)) - 1 ? 0U : most;
  }
  if (lane == 0) {
    bounds[warp] = bound;
  }
  if (thread == 0) {
    shared.candidate_count = 0;
  }
  compute_sync();
#pragma unroll
  for (int i = 0; i < kComputeWarps; ++i) {
    bound = min(bound, bounds[i]);
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
                                              int spans, const uint2* mail, unsigned epoch) {
  const DecodeArguments& a = c.a;
  DecodeShared& shared = c.shared;
  const int thread = static_cast<int>(threadIdx.x);
  const int own = at.position >> a.block_bits;
  const int initial = min(a.init_blocks, own + 1);
  const int first_local = max(initial, own - a.local_blocks + 1);
  const int forced = initial + own + 1 - first_local;
  const int wanted = min(a.sel_count, own + 1);
  unsigned* const keys = reinterpret_cast<unsigned*>(shared.work);
  if (thread < forced) {
    shared.chosen[thread] = thread < initial ? thread : first_local + thread - initial;
  }
  find_importance(c, at, spans, mail, epoch, keys);
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

}  // namespace versieve::kernels
