// nsa_attend and nsa_reuse: selected blocks and window, then all three branches merged, gated and
// written once. nsa_attend finds the compressed branch done by nsa_route; nsa_reuse attends the
// compressed cache first, in the same launch, and takes its blocks as given.
//
// Grid: cluster rank x tile of queries x KV head, clusters of 8. Rank r takes segment r: ranks 0-5 a
// sixth of each query's list each, ranks 6 and 7 the window's even and odd chunks of 64 positions.
// Traffic: traffic::nsa_attend, traffic::nsa_reuse.
#pragma once

#include "kernels/nsa_verify/fused_lists.cuh"

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
                     a.span_outs + row * a.max_spans * a.head_dim, used, load_f32(a.gates + row * 3),
                     value);
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

// Two passes of one body, so that its code is there once: the CTA's spans of compressed tokens
// (reuse), all row tiles together; then its segment of selected blocks or window, team by team.
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
  const Ring own{
      shared_at + first_stage * SliceRows<kD>::kStageBytes,
      barriers_at + (static_cast<std::uint32_t>(plan.stages) + first_stage) * 16U, stages};
  if (threadIdx.x == 0 && kReuse) {
    whole.init(plan.row_tiles * kSlices);
  }
  if (own_team.thread == 0) {
    own.init(plan.team_tiles * kSlices);
    publish_barriers();
  }
  wait_for_predecessors();
  Queries t = make_queries(a);
  SliceRows<kD> rows;
  rows.load(a.head_dim, [&](int row) {
    return t.has_row(row) ? a.q + t.row_index(t.query_of(row), t.head_of(row)) * a.head_dim
                          : nullptr;
  });
  fill_tables(t, counters + (teams + 1) / 2 * 2);

#pragma unroll 1
  for (int pass = kReuse ? 0 : 1; pass < 2; ++pass) {
    const bool compressed = pass == 0;
    const Team team = compressed
                          ? Team{0, plan.row_tiles, static_cast<int>(threadIdx.x), 0}
                          : own_team;
    Entry* const entries = compressed ? lists : lists + index * plan.list_capacity;
    int low[2] = {0, 0};
    int count = 0;
    int part = rank;
    int end_part = rank + 1;
    if (compressed) {
      const int visible = t.compressed_of(t.most_position + 1);
      part = first_span(rank, plan.ranks, visible);
      end_part = first_span(rank + 1, plan.ranks, visible);
      if (part < end_part) {
        count = list_compressed(t, team, part, end_part, entries);
      }
    } else if (rank < kSelectedSegments) {
      count = list_selected(t, team, rank, candidates + index * plan.candidates, counters + index,
                            entries);
    } else {
      count = list_window(t, team, rank - kSelectedSegments, entries);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int query = t.query_of(t.lane / 4 + r * 8);
        low[r] = query < t.count ? t.position[query] - a.window + 1 : 0;
      }
    }
    run_entries(t, maps, compressed, team, entries, count, compressed ? whole : own, low,
                merges + t.tile * kMergeFloats<kD>, part, end_part, rows,
                [](int, bool, bool) {});
    if (compressed) {
      __syncthreads();  // lists and units change hands
    }
  }
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
