// One CTA's share of the parts, and how the last CTAs of the grid wait for a group's parts.
#pragma once

#include "kernels/nsa_verify/fused_lists.cuh"
#include "kernels/nsa_verify/fused_merge.cuh"
#include "kernels/nsa_verify/fused_tiles.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/global_memory.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::kernels {

// The kinds of parts in the order in which a slot runs through them: the window needs nothing of
// nsa_route, and waits for nobody. A CTA of many parts has the first of its segments of selected
// blocks listed by itself, so that it runs while the others are listed.
enum Kind : int { kSpans, kWindow, kSelected, kOthers, kKinds };

// Barriers in shared memory beside the rings': of the tables, of the lists of each kind by their
// team's first row tile; behind them the lists' lengths.
inline constexpr int kReadyBarriers = 1 + kKinds * kCtaWarps;
static_assert(kFusedReadyBytes == (kReadyBarriers + 1 + kKinds * kCtaWarps) * 8 &&
              kFusedKinds == kSelected + 1);

// Shared memory of a working CTA, in order: rings, their barriers, once for spans and window and
// once for selected blocks, which other teams share; barriers of what is ready, lists' lengths,
// lists, bit maps of blocks, tables.
template <int kD>
struct WorkMemory {
  const FusedCut& cut;
  int slot;                   // of this warp
  std::uint32_t units_at;     // its
  std::uint32_t barriers_at;  // its, for spans and window
  std::uint32_t ready_at;     // Queries::tables_ready
  ListLength* lengths;
  Entry* entries;        // its
  std::uint32_t* units;  // its
  unsigned* block_maps;  // its
  std::int32_t* tables;

  __device__ __forceinline__ WorkMemory(const FusedCut& of, int own_slot, unsigned char* shared)
      : cut(of), slot(own_slot) {
    const std::uint32_t at = shared_address(shared);
    const int places = cut.slots * cut.units;
    units_at = at + static_cast<std::uint32_t>(slot * cut.units * Rows<kD>::kUnitBytes);
    barriers_at =
        at + static_cast<std::uint32_t>(places * Rows<kD>::kUnitBytes + slot * cut.units * 16);
    ready_at =
        at + static_cast<std::uint32_t>(places * (Rows<kD>::kUnitBytes + kFusedUnitBarrierBytes));
    unsigned char* const ready = shared + places * (Rows<kD>::kUnitBytes + kFusedUnitBarrierBytes);
    lengths = reinterpret_cast<ListLength*>(ready + (kReadyBarriers + 1) * 8);
    entries = reinterpret_cast<Entry*>(ready + kFusedReadyBytes);
    units = reinterpret_cast<std::uint32_t*>(entries + cut.slots * cut.list_entries);
    unsigned* const maps = units + cut.slots * cut.unit_entries;
    entries += slot * cut.list_entries;
    units += slot * cut.unit_entries;
    block_maps = maps + slot * cut.map_words;
    tables = reinterpret_cast<std::int32_t*>(maps + cut.slots * cut.map_words);
  }

  __device__ __forceinline__ int team_bits(int kind) const {
    return kind >= kSelected ? cut.team_bits : cut.tile_bits;
  }
  // A team's share of what the slot's teams share.
  __device__ __forceinline__ int share(int of, const Team& team) const {
    return of >> (cut.tile_bits - team.bits);
  }
  // That of kOthers lies behind the list of kSelected, which is there.
  __device__ __forceinline__ TileList list_of(int kind, const Team& team) const {
    const int region = kind < kSelected ? kind : kSelected;
    const int from = cut.list_starts[region];
    const int unit = cut.unit_starts[region];
    const int first = region * kCtaWarps + (slot << cut.tile_bits) + team.first_tile;
    const int at = first + (kind - region) * kCtaWarps;
    TileList list{entries + from + team.index * share(cut.list_entries - from, team),
                  units + unit + team.index * share(cut.unit_entries - unit, team), lengths + at,
                  ready_at + static_cast<std::uint32_t>((1 + at) * 8)};
    if (kind == kOthers) {
      list.entries += lengths[first].entries;
      list.units += lengths[first].units + 1;  // its end
    }
    return list;
  }
  __device__ __forceinline__ unsigned* maps_of(const Team& team) const {
    return block_maps + team.index * share(cut.map_words, team);
  }
  // Barrier of a CTA of many parts that signals: all units of spans and window have been asked for.
  // That of a list of spans which no team has: the first row tile's list is all row tiles'.
  __device__ __forceinline__ std::uint32_t asked_at() const {
    return ready_at + static_cast<std::uint32_t>((1 + kSpans * kCtaWarps + 1) * 8);
  }
  __device__ __forceinline__ Ring ring_of(int kind, const Team& team) const {
    const int count = share(cut.units, team);
    const std::uint32_t first = static_cast<std::uint32_t>(team.index * count);
    const std::uint32_t set =
        kind >= kSelected ? static_cast<std::uint32_t>(cut.slots * cut.units) : 0U;
    return {units_at + first * Rows<kD>::kUnitBytes, barriers_at + (set + first) * 16U, count};
  }
};

// Whether a CTA has parts to work on; else it finishes.
__device__ __forceinline__ bool works_on_parts(const FusedArguments& a, int block) {
  return block < a.groups.value * a.cut.part_blocks;
}
// The queries of a working CTA's group; `share`: which of the group's CTAs it is.
__device__ __forceinline__ Queries queries_of_cta(const FusedArguments& a, int block, int& share) {
  share = a.groups.quotient(block);
  return make_queries(a, block - share * a.groups.value);
}
// Sets up a working CTA, all of whose threads call it: feeding warps the barriers, working ones the
// positions of its queries, all that most lists need. kFillers: threads that fill the tables.
template <int kD, int kFillers>
__device__ __forceinline__ void start_cta(Queries& t, unsigned char* shared) {
  constexpr int kWorkers = kCtaWarps * 32;
  const int thread = static_cast<int>(threadIdx.x);
  if (warp_of_block() < kCtaWarps) {
    if (thread < t.a.cta_queries) {
      t.position[thread] = thread < t.count ? t.a.position[t.first_node + thread] : -1;
    }
  } else {
    const FusedCut& cut = t.a.cut;
    const int places = cut.slots * cut.units;
    const std::uint32_t first =
        shared_address(shared) + static_cast<std::uint32_t>(places * Rows<kD>::kUnitBytes);
    const int of_rings = places * 4;
#pragma unroll 1
    for (int i = thread - kWorkers; i < of_rings + kReadyBarriers; i += kTreeThreads - kWorkers) {
      const int readers = 1 << (i < places * 2 ? cut.tile_bits : cut.team_bits);
      const int of_ring = i % 2 == 0 ? 1 : readers;
      const int of_ready = i == of_rings ? kFillers : 32;
      barrier_init(first + static_cast<std::uint32_t>(i * 8), i < of_rings ? of_ring : of_ready);
    }
    publish_barriers();
  }
  __syncthreads();
  see_positions(t);
}

// Whether a feeding warp fills the CTA's tables first: the last one, which most teams leave free.
__device__ __forceinline__ bool fills_tables(const Queries& t) {
  return (t.slot << t.a.cut.tile_bits) + t.tile == kCtaWarps - 1;
}

// First span of share `rank` of `tokens` compressed tokens.
template <bool kMany>
__device__ __forceinline__ int share_start(const FusedCut& cut, int rank, int tokens) {
  return kMany ? cut.joined_start(rank, tokens) : first_span(rank, cut.ranks, tokens);
}

// The spans of share `rank` of the compressed tokens.
template <bool kMany>
__device__ __forceinline__ SegmentRange spans_of(const Queries& t, int rank) {
  const int visible = t.compressed_of(t.most_position + 1);
  return {share_start<kMany>(t.a.cut, rank, visible),
          share_start<kMany>(t.a.cut, rank + 1, visible)};
}
template <bool kMany>
__device__ __forceinline__ void list_spans(const Queries& t, const Team& team, int rank,
                                           const TileList& list) {
  const SegmentRange spans = spans_of<kMany>(t, rank);
  list_compressed(t, team, spans.from, spans.to, list);
}
// What a working warp does with that list, once it is there.
template <bool kMany>
__device__ __forceinline__ Job span_job(const Queries& t, int rank) {
  const SegmentRange spans = spans_of<kMany>(t, rank);
  return {true, kMany, 0, spans.from, spans.to, {0, 0}};
}

// The CTA has stored its parts of group `group`; the release holds for all its threads, which the
// barrier orders before.
__device__ inline void arrive_at(const FusedArguments& a, int group) {
  work_sync();
  if (threadIdx.x == 0) {
    count_release(a.counters + group * 2);
  }
}
// Counters of the group of node `node` of KV head g: parts that are there, finishing CTAs that are
// through.
__device__ inline unsigned* counters_of(const FusedArguments& a, int node, int g) {
  return a.counters + (g * a.cut.query_tiles + (node >> a.cta_bits)) * 2;
}
// Until all parts of that group are in memory. Returns to thread 0 how many finishing CTAs came
// before; the answer is on its way while rows are merged.
template <int kThreads>
__device__ __forceinline__ unsigned wait_for_parts(const FusedArguments& a, int node, int g) {
  unsigned before = 0;
  if (threadIdx.x == 0) {
    unsigned* const counters = counters_of(a, node, g);
    while (load_acquire(counters) < static_cast<unsigned>(a.cut.part_blocks)) {
      __nanosleep(20);
    }
    before = count_relaxed(counters + 1);
  }
  meet<0, kThreads>();
  return before;
}
// At the end of a finishing CTA: the last one of a group leaves its counters zero.
__device__ inline void leave_parts(const FusedArguments& a, int node, int g, unsigned before) {
  if (threadIdx.x == 0) {
    const int nodes = min(a.cta_queries, a.nodes - (node & -a.cta_queries));
    if (before == static_cast<unsigned>((nodes - 1) >> a.cut.finish_bits)) {  // of the finishers
      unsigned* const counters = counters_of(a, node, g);
      counters[0] = 0U;
      counters[1] = 0U;
    }
  }
}

}  // namespace versieve::kernels
