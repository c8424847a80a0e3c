// nsa_attend and nsa_reuse: selected blocks and window, then all three branches merged, gated and
// written once. nsa_attend finds the compressed branch done by nsa_route; nsa_reuse attends the
// compressed cache too, in the same launch, and takes its blocks as given.
//
// Parts of a group: shares of the compressed tokens (reuse), the selected blocks whose number is r
// modulo 6 (r < 6), the window's even and odd chunks of 64 positions. Finishing CTAs, each
// for one or more nodes of a KV head, merge them. Traffic: traffic::nsa_attend, traffic::nsa_reuse.
#pragma once

#include "kernels/nsa_verify/fused_parts.cuh"
#include "model/fused_parts.h"

namespace versieve::kernels {

// One query head of a node, which half a warp merges, gates and writes. All lanes of the warp make
// one; what is older than the parts is read then. `writes`: of this half.
template <int kD, bool kReuse, bool kAnnounced>
struct FinishedRow {
  bool writes;
  int row;
  RowParts<kD, true, kReuse, kAnnounced> parts;
  float gates[3];
  float4 value[kD / 64] = {};

  __device__ __forceinline__ FinishedRow(const FusedArguments& a, const NodeOfHead& n, int head,
                                         bool exists)
      : writes(exists),
        row(n.node * a.heads + n.g * a.group_heads + head),
        parts(a, row, kReuse ? compressed_parts(a.plan, n.seen) : 0) {
#pragma unroll
    for (int branch = 0; branch < 3; ++branch) {
      gates[branch] = load_f32(a.gates + row * 3 + branch);
    }
    if constexpr (!kReuse) {
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        const int element = w * 64 + parts.lane() * 4;
        const float4 x =
            element < a.head_dim
                ? __ldcg(reinterpret_cast<const float4*>(a.compressed + row * a.head_dim + element))
                : float4{};
        value[w] = make_float4(gates[0] * x.x, gates[0] * x.y, gates[0] * x.z, gates[0] * x.w);
      }
    }
  }
  // stored: see RowParts::await.
  __device__ __forceinline__ void finish(const FusedArguments& a, int stored) {
    if constexpr (kAnnounced) {
      parts.await(writes, stored);
    } else {
      parts.fetch();
    }
    parts.add(gates, value);
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      const int element = w * 64 + parts.lane() * 4;
      if (writes && element < a.head_dim) {
        *reinterpret_cast<uint2*>(a.out + row * a.head_dim + element) =
            make_uint2(pack_bf16(value[w].x, value[w].y), pack_bf16(value[w].z, value[w].w));
      }
    }
  }
};

// Parts of the compressed tokens that the CTAs of node `node` store for each row of its group: as
// many as the node that sees most of them has. All lanes of a warp call it.
__device__ __forceinline__ int stored_spans(const FusedArguments& a, int node) {
  const int first = node & -a.tile_queries;
  const int end = min(first + a.tile_queries, a.nodes);
  int most = 0;
#pragma unroll 1
  for (int i = first + static_cast<int>(threadIdx.x) % 32; i < end; i += 32) {
    most = max(most, a.position[i]);
  }
  return compressed_parts(a.plan, a.compressed_of(__reduce_max_sync(0xFFFFFFFFU, most) + 1));
}

template <int kD, bool kReuse, bool kAnnounced>
__device__ __forceinline__ void finish_attend(const FusedArguments& a, int index) {
  NodeOfHead n{};
  const int first_node = index / a.kv_heads << a.plan.finish_bits;
  n.g = index % a.kv_heads;
  const int rows = 1 << (a.plan.finish_bits + a.head_bits);
  if constexpr (kReuse) {
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x); at < a.sel_count << a.plan.finish_bits;
         at += kCtaWarps * 32) {
      const int node = a.plan.list_length.quotient(at);
      if (first_node + node < a.nodes) {
        const int entry = ((first_node + node) * a.kv_heads + n.g - node) * a.sel_count + at;
        a.indices[entry] = a.chosen[entry];
      }
    }
  }
  const auto row_at = [&](int i) {
    const int node = first_node + (i >> a.head_bits);
    const int head = i & ((1 << a.head_bits) - 1);
    n.node = min(node, a.nodes - 1);
    n.locate(a);
    return FinishedRow<kD, kReuse, kAnnounced>(a, n, min(head, a.group_heads - 1),
                                               node < a.nodes && head < a.group_heads);
  };
  int i = static_cast<int>(threadIdx.x) / kRowLanes;
  FinishedRow<kD, kReuse, kAnnounced> row = row_at(i);  // while others work
  const int stored = kReuse && kAnnounced ? stored_spans(a, first_node) : 0;
  const unsigned before = kAnnounced ? 0U : wait_for_parts(a, first_node, n.g);
#pragma unroll 1
  while (i < rows) {
    row.finish(a, stored);
    i += 2 * kCtaWarps;
    if (i < rows) {
      row = row_at(i);
    }
  }
  if constexpr (!kAnnounced) {
    leave_parts(a, first_node, n.g, before);
  }
}

// The kinds of parts in the order in which a slot runs through them: the window needs nothing of
// nsa_route, and waits for nobody.
enum Kind : int { kSpans, kWindow, kSelected, kKinds };

// Parts of one slot of a group's CTAs.
struct SlotWork {
  int rank;  // of the compressed tokens; -1: none
  SegmentRange window, selected;

  template <bool kMany>
  __device__ __forceinline__ static SlotWork of(const FusedPlan& plan, int slot) {
    const int rank = slot < plan.ranks ? slot : -1;
    if (!kMany) {
      const int segment = slot - plan.ranks;
      const SegmentRange own{segment, segment < kSegments ? segment + 1 : segment};
      const bool selected = segment >= 0 && segment < kSelectedSegments;
      return {rank, rank >= 0 || selected ? SegmentRange{} : own, selected ? own : SegmentRange{}};
    }
    const int from = slot == 0 ? 0 : plan.segment_end[slot - 1];
    const int to = plan.segment_end[slot];
    return {rank, window_range(from, to), selected_range(from, to)};
  }
  // The first kind from `kind` on of which there are parts; kKinds: none.
  __device__ __forceinline__ int next_kind(int kind) const {
    if (kind <= kSpans && rank >= 0) {
      return kSpans;
    }
    if (kind <= kWindow && !window.empty()) {
      return kWindow;
    }
    return kind <= kSelected && !selected.empty() ? kSelected : kKinds;
  }
};

// The slot that warps of `slot` of a group's CTA `share` work off. Parts that take longest start
// first: of many those of the last slots; of one each, where they outnumber the CTAs on the chip,
// the selected blocks, which the compressed tokens would come before.
template <int kD, bool kMany>
__device__ __forceinline__ int slot_of(const FusedPlan& plan, int share, int slot) {
  if (kMany) {
    return plan.part_blocks - 1 - share;
  }
  if (kD > kFusedManyHead && plan.slots == 1) {
    const int later = share + plan.ranks;
    return later < plan.part_blocks ? later : later - plan.part_blocks;
  }
  return share * plan.slots + slot;
}

// The tiles of one kind, and where their list lies.
template <bool kReuse, bool kMany, class Memory>
__device__ __forceinline__ Job list_kind(const Queries& t, const Team& team, const Memory& memory,
                                         const SlotWork& work, int kind, const EarlyLists& early,
                                         TileList& list) {
  const FusedArguments& a = t.a;
  const int index = team.first_tile / team.tiles;
  const int teams = a.plan.row_tiles / team.tiles;
  list = memory.list_of(a.plan, index, teams);
  if (kReuse && kind == kSpans) {
    return span_job<kMany>(t, team, work.rank, list);
  }
  SegmentRange range = kind == kSelected ? work.selected : work.window;
  range.to = kMany ? range.to : range.from + 1;
  const ListLength length =
      kind == kSelected
          ? list_selected(t, team, range, memory.block_maps + index * (a.plan.map_words / teams),
                          early, list)
          : list_window(t, team, range, list);
  Job job{false, false, length.entries, range.from, range.to, {0, 0}};
#pragma unroll
  for (int r = 0; r < 2 && kind == kWindow; ++r) {
    const int query = t.query_of(t.lane / 4 + r * 8);
    job.low[r] = query < t.count ? t.position[query] - a.window + 1 : 0;
  }
  return job;
}

// What a feeding warp does: the lists of the team whose first row tile is its own, kind after kind.
template <int kD, bool kReuse, bool kMany>
__device__ __forceinline__ void feed_attend(const FusedArguments& a, const TileMaps& maps,
                                            unsigned char* shared) {
  if (!works_on_parts(a)) {
    return;
  }
  int share;
  const Queries t = queries_of_cta(a, share);
  const WorkMemory<kD> memory(a.plan, t.slot, shared);
  const SlotWork work = SlotWork::of<kMany>(a.plan, slot_of<kD, kMany>(a.plan, share, t.slot));
  int kind = work.next_kind(kReuse ? kSpans : kWindow);
  if (kReuse && !(a.older_lists && (kind != kSelected || a.older_blocks))) {
    wait_for_predecessors();
  }
  int lists = 0;  // fed so far
#pragma unroll 1
  while (kind < kKinds) {
    const Team team = make_team(t, kind == kSelected ? a.plan.team_tiles : a.plan.row_tiles);
    if (t.tile == team.first_tile) {
      const TileList list =
          memory.list_of(a.plan, team.first_tile / team.tiles, a.plan.row_tiles / team.tiles);
      barrier_wait(list.ready, lists++ & 1);
      feed_ring<kD>(t, maps, kReuse && kind == kSpans, memory.ring_of(a.plan, team), list.units,
                    kReuse);
    }
    kind = kMany ? work.next_kind(kind + 1) : static_cast<int>(kKinds);
  }
}

// kMany: the plan's `many`; else a slot has one part. kAnnounced: finishing CTAs look for the parts
// themselves, and nobody counts them.
template <int kD, bool kReuse, bool kMany, bool kAnnounced>
__global__ void __launch_bounds__(kTreeThreads, 2)
    nsa_attend_kernel(const __grid_constant__ FusedArguments a,
                      const __grid_constant__ TileMaps maps) {
  extern __shared__ __align__(1024) unsigned char shared[];
  if (works_on_parts(a)) {
    start_lists<kD>(a.plan, shared);
  }
  if (warp_of_block() >= kCtaWarps) {
    take_registers<true>();
    feed_attend<kD, kReuse, kMany>(a, maps, shared);
    return;
  }
  take_registers<false>();
  if constexpr (!kReuse) {
    release_successors();
  }
  const int groups = a.kv_heads * a.plan.tiles;
  const int block = static_cast<int>(blockIdx.x);
  if (!works_on_parts(a)) {
    wait_for_predecessors();
    release_successors();
    finish_attend<kD, kReuse, kAnnounced>(a, block - groups * a.plan.part_blocks);
    return;
  }
  const int share = a.plan.groups.quotient(block);
  const int group = block - share * groups;
  Queries t = make_queries(a, group);
  const WorkMemory<kD> memory(a.plan, t.slot, shared);
  const SlotWork work = SlotWork::of<kMany>(a.plan, slot_of<kD, kMany>(a.plan, share, t.slot));
  int kind = work.next_kind(kReuse ? kSpans : kWindow);
  Team team = make_team(t, kind == kSelected ? a.plan.team_tiles : a.plan.row_tiles);
  Ring ring = memory.ring_of(a.plan, team);
  prefetch_map(&maps.of[kind == kSpans ? 1 : 0][0]);
  prefetch_map(&maps.of[kind == kSpans ? 1 : 0][1]);
  start_ring(ring, team);
  const RowPlaces queries(t);
  // nsa_attend starts when nsa_route has passed its own wait: all but the chosen blocks is older.
  // nsa_reuse lets others start when its own wait is over, as nsa_route does.
  Rows<kD> rows;
  if constexpr (kReuse) {
    if (!(a.older_lists && (kind != kSelected || a.older_blocks))) {
      wait_for_predecessors();
    }
  } else {
    rows.load(a.head_dim, queries.at);
  }
  EarlyLists early{};
  if (kReuse && kind == kSelected) {
    early.fetch(t, team);
  }
  fill_tables(t, memory.tables);
#pragma unroll 1
  for (bool first = true; kind < kKinds; first = false) {
    if (kMany && !first) {
      team = make_team(t, kind == kSelected ? a.plan.team_tiles : a.plan.row_tiles);
      ring = memory.ring_of(a.plan, team);
      restart_ring(a.plan, ring, team, memory.barriers_at);
    }
    if (kind == kSelected && !(kReuse && first)) {
      if constexpr (!kReuse) {
        wait_for_predecessors();
      }
      early.fetch(t, team);
    }
    TileList list{};
    const Job job = list_kind<kReuse, kMany>(t, team, memory, work, kind, early, list);
    run_entries<kReuse && kMany>(t, team, list, job, ring, rows, KeepNothing{}, [&] {
      if (kReuse && first) {
        wait_for_predecessors();
        release_successors();
        rows.load(a.head_dim, queries.at);
      }
    });
    kind = kMany ? work.next_kind(kind + 1) : static_cast<int>(kKinds);
  }
  if constexpr (!kAnnounced) {
    arrive_at(a, group);
  }
}

}  // namespace versieve::kernels
