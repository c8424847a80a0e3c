// nsa_attend and nsa_reuse: selected blocks and window, then all three branches merged, gated and
// written once. nsa_attend finds the spans of compressed tokens done by nsa_route; nsa_reuse
// attends the compressed cache too, in the same launch, and takes its blocks as given.
//
// Parts of a group: shares of the compressed tokens (reuse), the selected blocks whose number is r
// modulo 6 (r < 6), the window's even and odd chunks of 64 positions. Finishing CTAs, each
// for one or more nodes of a KV head, merge them. Traffic: traffic::nsa_attend, traffic::nsa_reuse.
#pragma once

#include "kernels/nsa_verify/fused_parts.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "model/launches/fused_parts.h"

namespace versieve::kernels {

// One query head of a node, which half a warp merges, gates and writes. All lanes of the warp make
// one; what is older than the parts is read then. `writes`: of this half.
template <int kD, bool kReuse, bool kAnnounced, bool kAhead>
struct FinishedRow {
  bool writes;
  int row;
  RowParts<kD, true, kReuse, kAnnounced, kAhead> parts;
  float gates[3];
  float4 value[kD / 64] = {};

  __device__ __forceinline__ FinishedRow(const FusedArguments& a, const NodeOfHead& n, int head,
                                         bool exists)
      : writes(exists),
        row(n.node * a.heads + n.g * a.group_heads + head),
        parts(a, row, kReuse ? a.cut.compressed_parts(n.seen) : 0) {
#pragma unroll
    for (int branch = 0; branch < 3; ++branch) {
      gates[branch] = load_f32(a.gates + row * 3 + branch);
    }
    if constexpr (!kReuse) {
      // The compressed branch, of which nsa_route left spans.
      RowParts<kD, false, true, false, false> spans(
          a, row, a.spans_joined ? join_count(n.seen) : span_count(n.seen));
      const float whole[3] = {1.0F, 0.0F, 0.0F};
      float4 branch[kD / 64] = {};
      spans.fetch();
      spans.add(whole, branch);
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        const float4 x = branch[w];
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
  const int first = node & -a.cta_queries;
  const int end = min(first + a.cta_queries, a.nodes);
  int most = 0;
#pragma unroll 1
  for (int i = first + static_cast<int>(threadIdx.x) % 32; i < end; i += 32) {
    most = max(most, a.position[i]);
  }
  return a.cut.compressed_parts(a.compressed_of(__reduce_max_sync(0xFFFFFFFFU, most) + 1));
}

// kThreads: that call it. All a CTA's where their registers hold a row's parts.
template <int kD, bool kReuse, bool kAnnounced, int kThreads>
__device__ __forceinline__ void finish_attend(const FusedArguments& a, int index) {
  using Row = FinishedRow<kD, kReuse, kAnnounced, kThreads == kCtaWarps * 32>;
  NodeOfHead n{};
  const int first_node = index / a.kv_heads << a.cut.finish_bits;
  n.g = index % a.kv_heads;
  const int rows = 1 << (a.cut.finish_bits + a.head_bits);
  if constexpr (kReuse) {
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x); at < a.sel_count << a.cut.finish_bits;
         at += kThreads) {
      const int node = a.list_length.quotient(at);
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
    return Row(a, n, min(head, a.group_heads - 1), node < a.nodes && head < a.group_heads);
  };
  int i = static_cast<int>(threadIdx.x) / kRowLanes;
  Row row = row_at(i);  // while others work
  const int stored = kReuse && kAnnounced ? stored_spans(a, first_node) : 0;
  const unsigned before = kAnnounced ? 0U : wait_for_parts<kThreads>(a, first_node, n.g);
#pragma unroll 1
  while (i < rows) {
    row.finish(a, stored);
    i += kThreads / kRowLanes;
    if (i < rows) {
      row = row_at(i);
    }
  }
  if constexpr (!kAnnounced) {
    leave_parts(a, first_node, n.g, before);
  }
}

// Parts of one slot of a group's CTAs.
struct SlotWork {
  int rank;  // of the compressed tokens; -1: none
  SegmentRange window, selected;
  int listed_first;  // of the selected segments; the others are listed by themselves

  template <bool kMany>
  __device__ __forceinline__ static SlotWork of(const FusedCut& cut, int slot) {
    const SlotParts parts = cut.parts_of<kMany>(slot);
    // A team of one row tile has no warp to list others while another feeds.
    return {parts.rank, parts.window, parts.selected,
            !kMany || cut.team_bits > 0 ? 1 : kSelectedSegments};
  }
  // The first kind from `kind` on of which there are parts; kKinds: none.
  __device__ __forceinline__ int next_kind(int kind) const {
    if (kind <= kSpans && rank >= 0) {
      return kSpans;
    }
    if (kind <= kWindow && !window.empty()) {
      return kWindow;
    }
    if (kind <= kSelected && !selected.empty()) {
      return kSelected;
    }
    return kind <= kOthers && selected.to - selected.from > listed_first ? kOthers : kKinds;
  }
};

// The slot that warps of `slot` of a group's CTA `share` work off. Parts that take longest start
// first: of many as the cut orders them; of one each, where they outnumber the CTAs on the chip,
// the selected blocks, which the compressed tokens would come before.
template <int kD, bool kMany>
__device__ __forceinline__ int slot_of(const FusedCut& cut, int share, int slot) {
  if (kMany) {
    return cut.slot_order[share];
  }
  if (kD > kFusedManyHead && cut.slots == 1) {
    const int later = share + cut.ranks;
    return later < cut.part_blocks ? later : later - cut.part_blocks;
  }
  return share * cut.slots + slot;
}

// Segments of a slot, of window or selected blocks. Where a slot of many has one of the window's,
// the first is that in which the tree does not begin.
template <bool kMany>
__device__ __forceinline__ SegmentRange segments_of(const Queries& t, const SlotWork& work,
                                                    int kind) {
  const SegmentRange range = kind >= kSelected ? work.selected : work.window;
  if (!kMany) {
    return {range.from, range.from + 1};
  }
  if (kind == kSelected) {
    return {range.from, min(range.from + work.listed_first, range.to)};
  }
  if (kind == kOthers) {
    return {range.from + work.listed_first, range.to};
  }
  if (kind == kWindow && range.to - range.from == 1) {
    static_assert(kWindowSegments == 2, "one of two");
    const int turned = (range.from + t.shared_tokens / kTileKeys + 1) % kWindowSegments;
    return {kSelectedSegments + turned, kSelectedSegments + turned + 1};
  }
  return range;
}

// What a slot's working warps do of one kind.
template <bool kReuse, bool kMany>
__device__ __forceinline__ Job job_of(const Queries& t, const SlotWork& work, int kind) {
  if (kReuse && kind == kSpans) {
    return span_job<kMany>(t, work.rank);
  }
  const SegmentRange range = segments_of<kMany>(t, work, kind);
  Job job{false, false, 0, range.from, range.to, {0, 0}};
  if (kind >= kSelected) {
    job.turn = segment_turn<kMany>(t);
  }
#pragma unroll
  for (int r = 0; r < 2 && kind == kWindow; ++r) {
    const int query = t.query_of(t.lane / 4 + r * 8);
    job.low[r] = query < t.count ? t.position[query] - t.a.window + 1 : 0;
  }
  return job;
}

// The list of a slot of one part, which the first working warp of its team makes.
template <bool kReuse, class Memory>
__device__ __forceinline__ void make_list(const Queries& t, const Memory& memory,
                                          const SlotWork& work, int kind, const Team& team,
                                          const EarlyLists& early) {
  const TileList list = memory.list_of(kind, team);
  if (kReuse && kind == kSpans) {
    list_spans<false>(t, team, work.rank, list);
  } else if (kind == kWindow) {
    list_window(t, team, segments_of<false>(t, work, kind), list);
  } else {
    const SegmentRange own = segments_of<false>(t, work, kind);
    list_selected(t, team, own, own, SegmentTurn{}, memory.maps_of(team), early, list);
  }
}

// Which lists of a CTA of many parts a feeding warp makes. Not the first warp where another can: it
// feeds.
struct ListWork {
  bool spans, window;
  int first;       // row tile of the first team whose selected blocks it lists; -1: of none
  bool stands_in;  // for the first warp: lists those of team 0, too

  __device__ __forceinline__ ListWork(const Queries& t, const SlotWork& work, int first_kind) {
    const Team own = make_team(t.tile, t.a.cut.team_bits);
    const bool selected = !work.selected.empty();
    const bool busy = first_kind != kSelected;  // the first warp
    first = -1;
    if (selected && own.tiles > 1 && !busy) {
      first = t.tile == own.first_tile + 1 ? own.first_tile : -1;
    } else if (selected && t.tile == own.first_tile && !(busy && t.tile == 0)) {
      first = t.tile;
    }
    stands_in = selected && busy && t.tile == kCtaWarps - 1;
    first = stands_in && first < 0 ? 0 : first;
    spans = first_kind == kSpans && t.tile == 1;
    window = !work.window.empty() && t.tile == (first_kind == kSpans ? 2 : 1);
  }

  template <bool kReuse, class Memory>
  __device__ __forceinline__ void make(const Queries& t, const Memory& memory, const SlotWork& work,
                                       EarlyLists& early) {
    const Team all = make_team(t.tile, t.a.cut.tile_bits);
    if (kReuse && spans) {
      list_spans<true>(t, all, work.rank, memory.list_of(kSpans, all));
    }
    if (window) {
      list_window(t, all, segments_of<true>(t, work, kWindow), memory.list_of(kWindow, all));
    }
    const bool both = stands_in && first > 0;  // its own team's and those of team 0
    int kind = kSelected;
    int tile = first;
#pragma unroll 1
    while (tile >= 0 && kind < kKinds) {
      const Team team = make_team(tile, t.a.cut.team_bits);
      list_selected(t, team, work.selected, segments_of<true>(t, work, kind), segment_turn<true>(t),
                    memory.maps_of(team), early, memory.list_of(kind, team));
      __syncwarp();
      if (both && tile > 0) {
        tile = 0;
        if (kind == kSelected) {
          early.fetch(t, make_team(0, t.a.cut.team_bits));
        }
      } else {
        tile = first;
        kind = work.next_kind(kind + 1);
      }
    }
  }
};

// What a feeding warp does: the units of lists. A slot's first warp feeds spans and window, a
// team's first one its selected blocks.
template <int kD, bool kReuse, bool kMany>
__device__ __forceinline__ void feed_attend(const Queries& t, const TileMaps& maps,
                                            const WorkMemory<kD>& memory, const SlotWork& work,
                                            int kind) {
  const FusedCut& cut = t.a.cut;
  Fed fed;
  UnitsBefore before{memory.ring_of(kSpans, make_team(0, cut.tile_bits)), 0, 0};
  int units = 0;  // of spans and window
#pragma unroll 1
  while (kind < kKinds) {
    const Team team = make_team(t.tile, memory.team_bits(kind));
    const TileList list = memory.list_of(kind, team);
    barrier_wait(list.ready, 0);
    const bool first = t.tile == team.first_tile;
    if (kMany && kind == kSelected && units > 0) {
      if (t.tile == 0) {
        barrier_arrive(memory.asked_at());
      } else if (first) {
        barrier_wait(memory.asked_at(), 0);
      }
    }
    if (first) {
      const Ring ring = memory.ring_of(kind, team);
      if (kind == kSelected) {
        before.first = team.index * ring.units;
        before.units = units;
        fed = Fed{};
      }
      feed_ring<kD>(t, maps, kReuse && kind == kSpans, ring, list.units, kReuse, before, fed);
    }
    units += kind < kSelected ? list.length->units : 0;
    kind = kMany ? work.next_kind(kind + 1) : static_cast<int>(kKinds);
  }
}

// kMany: the cut's `many`; else a slot has one part. kAnnounced: finishing CTAs look for the parts
// themselves, and nobody counts them. kHalves: of a row tile that hold rows.
template <int kD, bool kReuse, bool kMany, bool kAnnounced, int kHalves, class Calls>
__global__ void __launch_bounds__(kTreeThreads, 2)
    nsa_attend_kernel(const __grid_constant__ Calls calls) {
  const FusedArguments& a = calls.mine();
  if (calls.leaves_idle(a)) {
    return;
  }
  const TileMaps& maps = calls.maps;
  constexpr int kRegisters = kMany ? kListRegisters : kFeedRegisters;
  extern __shared__ __align__(1024) unsigned char shared[];
  const bool feeds = warp_of_block() >= kCtaWarps;
  if constexpr (!kReuse) {
    release_successors();
  }
  const int block = calls.block();
  if (!works_on_parts(a, block)) {
    // All warps where they have registers for it: joins are few parts, and nsa_attend has no spans.
    // Not in calls of few nodes, which finish sooner on more SMs.
    constexpr bool kAll = kD == kFusedManyHead && (kMany || (!kReuse && kHalves == 2));
    if constexpr (!kAll) {
      if (feeds) {
        give_registers<kRegisters>();
        return;
      }
      take_registers<256 - kRegisters>();
    }
    wait_for_predecessors();
    release_successors();
    finish_attend<kD, kReuse, kAnnounced, kAll ? kTreeThreads : kCtaWarps * 32>(
        a, block - a.groups.value * a.cut.part_blocks);
    return;
  }
  int share;
  Queries t = queries_of_cta(a, block, share);
  const WorkMemory<kD> memory(a.cut, t.slot, shared);
  const SlotWork work = SlotWork::of<kMany>(a.cut, slot_of<kD, kMany>(a.cut, share, t.slot));
  int kind = work.next_kind(kReuse ? kSpans : kWindow);
  Team team = make_team(t.tile, memory.team_bits(kind));
  // nsa_attend starts when nsa_route has passed its own wait: all but the chosen blocks is older.
  // nsa_reuse lets others start when its own wait is over, as nsa_route does.
  if (kReuse && !(a.older_lists && (kind != kSelected || a.older_blocks))) {
    wait_for_predecessors();
  }
  place_tables(t, memory.tables, memory.ready_at);
  // The lists that this warp makes: of a slot of one part a team's first working warp.
  ListWork lists(t, work, kind);
  if (feeds != kMany || (!kMany && (kind >= kKinds || t.tile != team.first_tile))) {
    lists.spans = lists.window = lists.stands_in = false;
    lists.first = -1;
  } else if (!kMany) {
    lists.first = kind == kSelected ? t.tile : -1;
  }
  EarlyLists early{};
  if (kReuse && lists.first >= 0 && (kind == kSelected || a.older_blocks)) {
    early.fetch(t, make_team(lists.first, a.cut.team_bits));
  }
  start_cta<kD, kMany ? kCtaWarps * 32 : 32>(t, shared);
  if (feeds) {
    give_registers<kRegisters>();
    if constexpr (kMany) {
      if (lists.first >= 0 && !(kReuse && (kind == kSelected || a.older_blocks))) {
        wait_for_predecessors();
        early.fetch(t, make_team(lists.first, a.cut.team_bits));
      }
      lists.make<kReuse>(t, memory, work, early);
    } else if (fills_tables(t)) {
      fill_tables<32>(t, t.lane);
    }
    feed_attend<kD, kReuse, kMany>(t, maps, memory, work, kind);
    return;
  }
  take_registers<256 - kRegisters>();
  prefetch_map(&maps.of[kind == kSpans ? 1 : 0][0]);
  prefetch_map(&maps.of[kind == kSpans ? 1 : 0][1]);
  const RowPlaces queries(t);
  Rows<kD, kHalves> rows;
  if constexpr (!kReuse) {
    rows.load(a.head_dim, queries.at);
  }
  if constexpr (kMany) {
    fill_tables<kCtaWarps * 32>(t, static_cast<int>(threadIdx.x));
  } else if (kind < kKinds && t.tile == team.first_tile) {
    if (!kReuse && kind == kSelected) {
      wait_for_predecessors();
      early.fetch(t, team);
    }
    make_list<kReuse>(t, memory, work, kind, team, early);
  }
  if (kind < kKinds) {
    Run run(t, job_of<kReuse, kMany>(t, work, kind), memory.list_of(kind, team));
    if constexpr (kReuse) {
      wait_for_predecessors();
      release_successors();
      rows.load(a.head_dim, queries.at);
    }
    Cursor at{0, 0};
#pragma unroll 1
    while (true) {
      run_entries<kReuse && kMany>(t, team, memory.list_of(kind, team), run,
                                   memory.ring_of(kind, team), at, rows, KeepNothing{});
      kind = kMany ? work.next_kind(kind + 1) : static_cast<int>(kKinds);
      if (!kMany || kind >= kKinds) {
        break;
      }
      if (kind == kSelected) {
        team = make_team(t.tile, a.cut.team_bits);
        at = Cursor{0, 0};
      }
      run = Run(t, job_of<kReuse, kMany>(t, work, kind), memory.list_of(kind, team));
    }
  }
  if constexpr (!kAnnounced) {
    arrive_at(a, t.group);
  }
}

}  // namespace versieve::kernels
