// nsa_attend and nsa_reuse: selected blocks and window, then all three branches merged, gated and
// written once. nsa_attend finds the compressed branch done by nsa_route; nsa_reuse attends the
// compressed cache first, in the same launch, and takes its blocks as given.
//
// Grid: cluster rank x tile of queries x KV head, clusters of 8. Rank r takes segment r: ranks 0-5
// the selected blocks whose number is r modulo 6, ranks 6 and 7 the window's even and odd chunks of
// 64 positions. Traffic: traffic::nsa_attend, traffic::nsa_reuse.
#pragma once

#include "kernels/nsa_verify/fused_lists.cuh"
#include "kernels/nsa_verify/fused_merge.cuh"

namespace versieve::kernels {

// A warp merges, gates and writes one query head.
template <int kD, bool kReuse>
__device__ __forceinline__ void finish_row(const Queries& t, int query, int head) {
  const FusedArguments& a = t.a;
  const int row = t.row_index(query, head);
  float2 value[kD / 64] = {};
  if constexpr (!kReuse) {
    const float gate = load_f32(a.gates + row * 3);
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      const int element = min(w * 64 + t.lane * 2, a.head_dim - 2);
      const float2 pair =
          __ldcg(reinterpret_cast<const float2*>(a.compressed + row * a.head_dim + element));
      value[w] = make_float2(gate * pair.x, gate * pair.y);
    }
  }
  LoadedParts<kD> parts;
  parts.load(a.head_dim, a.segment_states + row * kSegments,
             a.segment_outs + row * kSegments * a.head_dim, kSegments);
  if constexpr (kReuse) {
    const int used = span_count(t.seen_by(query));
    if (used > 0) {
      add_merged<kD>(a.head_dim, a.span_states + row * a.max_spans,
                     a.span_outs + row * a.max_spans * a.head_dim, used,
                     load_f32(a.gates + row * 3), value);
    }
  }
  parts.add(0, kSelectedSegments, load_f32(a.gates + row * 3 + 1), value);
  parts.add(kSelectedSegments, kSegments, load_f32(a.gates + row * 3 + 2), value);
#pragma unroll
  for (int w = 0; w < kD / 64; ++w) {
    const int element = w * 64 + t.lane * 2;
    if (element < a.head_dim) {
      *reinterpret_cast<std::uint32_t*>(a.out + row * a.head_dim + element) =
          pack_bf16(value[w].x, value[w].y);
    }
  }
}

// This CTA's spans of compressed tokens, all row tiles together. A function of its own, so that
// nothing of it stays in registers afterwards.
template <int kD>
__device__ __noinline__ void attend_spans(Queries t, const TileMaps& maps, Ring ring,
                                          Entry* entries, float* merge) {
  const FusedArguments& a = t.a;
  const FusedPlan& plan = a.plan;
  const int rank = static_cast<int>(blockIdx.x);
  const int visible = t.compressed_of(t.most_position + 1);
  const int part = first_span(rank, plan.ranks, visible);
  const int end_part = first_span(rank + 1, plan.ranks, visible);
  if (part >= end_part) {
    return;
  }
  SliceRows<kD> rows;
  load_rows(t, rows);
  const Team team{0, plan.row_tiles, static_cast<int>(threadIdx.x), 0};
  const int count = list_compressed(t, team, part, end_part, entries);
  const int low[2] = {0, 0};
  run_entries(t, maps, true, team, entries, count, ring, low, merge, part, end_part, rows,
              [](int, bool, bool) {});
}

template <int kD, bool kReuse>
__global__ void __launch_bounds__(kMaxRowTiles* kSlices * 32 * 64 / kD)
    nsa_attend_kernel(const __grid_constant__ FusedArguments a,
                      const __grid_constant__ TileMaps maps) {
  namespace cg = cooperative_groups;
  release_successors();
  extern __shared__ __align__(1024) unsigned char shared[];
  const FusedPlan& plan = a.plan;
  const int rank = static_cast<int>(blockIdx.x);
  const int teams = plan.row_tiles / plan.team_tiles;
  const int stages = plan.stages / teams;
  std::uint64_t* const barriers =
      reinterpret_cast<std::uint64_t*>(shared + plan.stages * SliceRows<kD>::kStageBytes);
  float* const merges = reinterpret_cast<float*>(barriers + 4 * plan.stages);
  Entry* const lists = reinterpret_cast<Entry*>(merges + plan.row_tiles * kMergeFloats<kD>);
  std::int32_t* const candidates =
      reinterpret_cast<std::int32_t*>(lists + teams * plan.list_capacity);
  std::int32_t* const counters = candidates + teams * plan.candidates;
  const std::uint32_t shared_at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::uint32_t barriers_at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barriers));
  const Ring whole{shared_at, barriers_at, plan.stages};
  const Team own_team = make_team(plan.team_tiles);
  const int index = own_team.first_tile / plan.team_tiles;
  const std::uint32_t first_stage = static_cast<std::uint32_t>(index * stages);
  const Ring own{shared_at + first_stage * SliceRows<kD>::kStageBytes,
                 barriers_at + (static_cast<std::uint32_t>(plan.stages) + first_stage) * 16U,
                 stages};
  if (threadIdx.x == 0 && kReuse) {
    whole.init(plan.row_tiles * kSlices);
  }
  if (own_team.thread == 0) {
    own.init(plan.team_tiles * kSlices);
    publish_barriers();
  }
  wait_for_predecessors();
  Queries t = make_queries(a);
  fill_tables(t, counters + 2 * teams);
  float* const merge = merges + t.tile * kMergeFloats<kD>;
  if constexpr (kReuse) {
    attend_spans<kD>(t, maps, whole, lists, merge);
    __syncthreads();  // lists and stages change hands
  }
  SliceRows<kD> rows;
  load_rows(t, rows);
  Entry* const entries = lists + index * plan.list_capacity;
  int low[2] = {0, 0};
  int count;
  if (rank < kSelectedSegments) {
    count = list_selected(t, own_team, rank, candidates + index * plan.candidates,
                          counters + 2 * index, entries);
  } else {
    count = list_window(t, own_team, rank - kSelectedSegments, entries);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = t.query_of(t.lane / 4 + r * 8);
      low[r] = query < t.count ? t.position[query] - a.window + 1 : 0;
    }
  }
  run_entries(t, maps, false, own_team, entries, count, own, low, merge, rank, rank + 1, rows,
              [](int, bool, bool) {});
  cg::this_cluster().sync();  // all parts of the queries' rows are there
  const int warps = plan.row_tiles * kSlices;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
  for (int i = rank + warp * plan.ranks; i < t.count * a.group_heads; i += warps * plan.ranks) {
    const int query = i / a.group_heads;
    finish_row<kD, kReuse>(t, query, i - query * a.group_heads);
  }
  if constexpr (kReuse) {
#pragma unroll 1
    for (int query = rank + warp * plan.ranks; query < t.count; query += warps * plan.ranks) {
      const int from = t.pair_index(query) * a.sel_count;
      for (int i = t.lane; i < a.sel_count; i += 32) {
        a.indices[from + i] = a.chosen[from + i];
      }
    }
  }
}

}  // namespace versieve::kernels
