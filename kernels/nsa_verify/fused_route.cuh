// nsa_route: the spans of the compressed branch, the importance of every selection block and each
// node's n blocks, in one launch.
//
// Working CTAs attend shares of the compressed tokens and keep, beside the partial results, the
// softmax weights: summed into blocks in registers where a slice of 16 tokens is four blocks (B/s =
// 4, l/s = 2), else as they are; each slice under its own power-of-two reference, so that nothing
// has to be looked at twice. Finishing CTAs, for one to four nodes of a KV head, sum up the
// spans' states, turn weights into probabilities by one factor a slice, add up heads and pick the
// blocks. The spans' outputs are nsa_attend's to sum up. Traffic: traffic::nsa_route.
#pragma once

#include <bit>

#include "kernels/nsa_verify/fused_parts.cuh"
#include "kernels/nsa_verify/fused_select.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/bulk_copy.cuh"

namespace versieve::kernels {

// Writes softmax weights to memory, slice by slice. Where a slice is four blocks, the sums that
// their importance needs are one product of the weights with a constant matrix: columns 0-3 hold
// how often a token counts for a block (2, 2, 2, 1 for its own four, 1 for the token before),
// column 4 picks the last token, which counts once for the next slice's first block.
struct KeepWeights {
  int quarter;  // of a row's lanes
  bool four;
  std::uint32_t times[2];  // the matrix: rows 2 quarter, + 1 and + 8, + 9 of column lane / 4
  // Where this lane writes for rows lane / 4 and lane / 4 + 8, and how far slices are apart; null:
  // nowhere.
  float2* to[2];
  float2* slices[2];
  int stride;

  template <class AnyQueries>
  __device__ __forceinline__ explicit KeepWeights(const AnyQueries& t, bool keeps = true) {
    const FusedArguments& a = t.a;
    quarter = t.lane % 4;
    four = a.four;
    const auto times_of = [&](int token) {
      const int block = t.lane / 4;
      const int place = token - 4 * block;
      const bool own = place >= 0 && place < 4 && block < 4;
      const float inside = own ? (place == 3 ? 1.0F : 2.0F) : 0.0F;
      return place == -1 && block <= 4 ? 1.0F : inside;
    };
    times[0] = pack_bf16(times_of(quarter * 2), times_of(quarter * 2 + 1));
    times[1] = pack_bf16(times_of(quarter * 2 + 8), times_of(quarter * 2 + 9));
    stride = !four ? 8 : (quarter == 2 ? 1 : 2);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = t.lane / 4 + r * 8;
      to[r] = nullptr;
      slices[r] = nullptr;
      if (!keeps || !t.has_row(row)) {
        continue;
      }
      const int at = t.row_index(t.query_of(row), t.head_of(row));
      slices[r] = a.slices + at * a.max_slices;
      if (!four) {
        to[r] = reinterpret_cast<float2*>(
            a.weights + static_cast<std::int64_t>(at) * a.max_slices * kSliceKeys + quarter * 2);
      } else if (quarter < 2) {
        to[r] = reinterpret_cast<float2*>(a.weights + at * a.max_blocks + quarter * 2);
      } else if (quarter == 2) {
        to[r] = slices[r];
      }
    }
  }

  template <int kD, int kHalves>
  __device__ __forceinline__ void tile(int first, int count, const Rows<kD, kHalves>& rows,
                                       const float (&s)[kTileKeys / 8][4],
                                       const std::uint32_t (&p)[kSlots][4]) const {
    if (four) {
      keep_blocks(first / kSliceKeys, (count + kSliceKeys - 1) / kSliceKeys, true, true, rows, p);
      return;
    }
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      if (slot * kSliceKeys < count) {
        keep_tokens(first / kSliceKeys + slot, true, true, rows, s[slot * 2], s[slot * 2 + 1]);
      }
    }
  }
  template <int kD, int kHalves>
  __device__ __forceinline__ void slice(int first, bool first_row, bool second_row,
                                        const Rows<kD, kHalves>& rows, const float (&x)[2][4],
                                        const std::uint32_t (&p)[4]) const {
    if (four) {
      const std::uint32_t own[1][4] = {{p[0], p[1], p[2], p[3]}};
      keep_blocks(first / kSliceKeys, 1, first_row, second_row, rows, own);
    } else {
      keep_tokens(first / kSliceKeys, first_row, second_row, rows, x[0], x[1]);
    }
  }

 private:
  // Slices slice, slice + 1, ..., `count` of them there.
  template <int kD, int kHalves, int kCount>
  __device__ __forceinline__ void keep_blocks(int slice, int count, bool first_row, bool second_row,
                                              const Rows<kD, kHalves>& rows,
                                              const std::uint32_t (&p)[kCount][4]) const {
    float sums[kCount][4] = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      multiply_m16n8k16(sums[i], p[i], times[0], times[1]);
    }
#pragma unroll
    for (int r = 0; r < kHalves; ++r) {
      if ((r == 0 ? first_row : second_row) && to[r] != nullptr) {
        float2* at = to[r] + slice * stride;
#pragma unroll
        for (int i = 0; i < kCount; ++i, at += stride) {
          if (i < count) {
            const float own = sums[i][r * 2];
            __stcg(at, make_float2(quarter == 2 ? rows.reference[r] : own,
                                   quarter == 2 ? own : sums[i][r * 2 + 1]));
          }
        }
      }
    }
  }
  template <int kD, int kHalves>
  __device__ __forceinline__ void keep_tokens(int slice, bool first_row, bool second_row,
                                              const Rows<kD, kHalves>& rows, const float (&x)[4],
                                              const float (&y)[4]) const {
#pragma unroll
    for (int r = 0; r < kHalves; ++r) {
      if ((r == 0 ? first_row : second_row) && to[r] != nullptr) {
        __stcg(to[r] + slice * stride, make_float2(x[r * 2], x[r * 2 + 1]));
        __stcg(to[r] + slice * stride + 4, make_float2(y[r * 2], y[r * 2 + 1]));
        if (quarter == 0) {
          __stcg(slices[r] + slice, make_float2(rows.reference[r], 0.0F));
        }
      }
    }
  }
};

// A CTA finishes 1, 2 or 4 nodes of a KV head: half a warp merges the states of a query head, then
// each node has as many warps as there are. kCounts: counts_blocks (fused_call.cuh). kThreads: all
// of the CTA's.
template <int kD, bool kCounts, int kThreads>
__device__ __forceinline__ void finish_route(const FusedArguments& a, int index,
                                             unsigned char* shared) {
  constexpr int kWarps = kThreads / 32;
  const int warp = warp_of_block();
  const int nodes = 1 << a.cut.finish_bits;
  const int first_node = index / a.kv_heads << a.cut.finish_bits;
  NodeOfHead n{};
  n.g = index % a.kv_heads;
  float2* const states = reinterpret_cast<float2*>(shared);  // [nodes, H/G rounded up]
  unsigned* const lists = reinterpret_cast<unsigned*>(states + kFusedFinishRows);
  const int rows = nodes << a.head_bits;
  int i = 0;  // row of this half warp
  const auto row_at = [&](int first) {
    i = min(first + static_cast<int>(threadIdx.x) / kRowLanes % 2, rows - 1);
    n.node = min(first_node + (i >> a.head_bits), a.nodes - 1);
    n.locate(a);
    const int head = min(i & ((1 << a.head_bits) - 1), a.group_heads - 1);
    return SpanStates(a, n.node * a.heads + n.g * a.group_heads + head,
                      a.cut.compressed_parts(n.seen));
  };
  SpanStates spans = row_at(warp * 2);  // while others work
  // The node whose blocks this warp ranks with others.
  const int warps = kWarps >> a.cut.finish_bits;
  const int place = warp >> (std::countr_zero(unsigned{kWarps}) - a.cut.finish_bits);
  const int thread = static_cast<int>(threadIdx.x) - place * warps * 32;
  NodeOfHead ranked{};
  ranked.g = n.g;
  ranked.node = min(first_node + place, a.nodes - 1);
  ranked.locate(a);
  ranked.states = states + (place << a.head_bits);
  const bool works = first_node + place < a.nodes && chooses(a, ranked.node);
  const unsigned before = wait_for_parts<kThreads>(a, first_node, n.g);
  SliceWeights weights;
  const bool asked = works && a.four;
  if (asked) {
    weights.fetch(a, ranked, thread, 0);
  }
#pragma unroll 1
  for (int first = warp * 2; first < rows;) {
    const float2 merged = spans.merge();
    if (spans.lane() == 0) {
      states[i] = merged;
    }
    first += 2 * kWarps;
    if (first < rows) {
      spans = row_at(first);
    }
  }
  meet<0, kThreads>();
  unsigned* const keys = lists + place * fused_select_words(a.num_blocks, a.sel_count);
  if (works) {
    importance_of_node(a, ranked, keys, thread, warps * 32, weights, asked);
  }
  meet<0, kThreads>();
  std::int32_t* const chosen = reinterpret_cast<std::int32_t*>(keys + (a.num_blocks + 3) / 4 * 4);
  uint2* const candidates = reinterpret_cast<uint2*>(chosen + (a.sel_count + 3) / 4 * 4);
  if constexpr (kCounts) {
    if (works) {
      count_blocks_of_node<kThreads>(a, ranked, keys, reinterpret_cast<unsigned*>(candidates));
    }
  } else if (works && warp == place * warps) {
    select_of_node(a, ranked, keys, chosen, candidates);
  }
  leave_parts(a, first_node, n.g, before);
}

// kMany: the cut's `many`; kCounts: counts_blocks (fused_call.cuh).
template <int kD, bool kMany, bool kCounts, class Calls>
__global__ void __launch_bounds__(kTreeThreads, 2)
    nsa_route_kernel(const __grid_constant__ Calls calls) {
  const FusedArguments& a = calls.mine();
  if (calls.leaves_idle(a)) {
    return;
  }
  const TileMaps& maps = calls.maps;
  extern __shared__ __align__(1024) unsigned char shared[];
  const bool feeds = warp_of_block() >= kCtaWarps;
  const int block = calls.block();
  if (!works_on_parts(a, block)) {
    wait_for_predecessors();
    release_successors();
    finish_route<kD, kCounts, kTreeThreads>(a, block - a.groups.value * a.cut.part_blocks, shared);
    return;
  }
  int share;
  Queries t = queries_of_cta(a, block, share);
  const WorkMemory<kD> memory(a.cut, t.slot, shared);
  const int rank = share * a.cut.slots + t.slot;
  const Team team = make_team(t.tile, a.cut.tile_bits);
  const TileList list = memory.list_of(kSpans, team);
  const Ring ring = memory.ring_of(kSpans, team);
  if (!a.older_lists) {
    wait_for_predecessors();
  }
  place_tables(t, memory.tables, memory.ready_at);
  start_cta<kD, 32>(t, shared);
  if (feeds) {
    give_registers<kFeedRegisters>();
    if (fills_tables(t)) {
      fill_tables<32>(t, t.lane);
    }
    if (t.tile == 0 && rank < a.cut.ranks) {
      barrier_wait(list.ready, 0);
      Fed fed;
      feed_ring<kD>(t, maps, true, ring, list.units, true, {ring, 0, 0}, fed);
    }
    return;
  }
  take_registers<256 - kFeedRegisters>();
  if (rank < a.cut.ranks) {
    prefetch_map(&maps.of[1][0]);
    prefetch_map(&maps.of[1][1]);
    if (t.tile == 0) {
      list_spans<kMany>(t, team, rank, list);
    }
    const RowPlaces queries(t);
    const KeepWeights keep(t);
    const Run run(t, span_job<kMany>(t, rank), list);
    wait_for_predecessors();
    // Only now: nsa_attend begins with what is older than this launch.
    release_successors();
    Rows<kD> rows;
    rows.load(a.head_dim, queries.at);
    Cursor at{0, 0};
    run_entries<kMany>(t, team, list, run, ring, at, rows, keep);
  }
  arrive_at(a, t.group);
}

}  // namespace versieve::kernels
