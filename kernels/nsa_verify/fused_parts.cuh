// One CTA's share of the parts, and how the last CTAs of the grid wait for a group's parts.
#pragma once

#include "kernels/nsa_verify/fused_lists.cuh"
#include "kernels/nsa_verify/fused_merge.cuh"
#include "kernels/nsa_verify/fused_tiles.cuh"

namespace versieve::kernels {

// Shared memory of a working CTA, in order: rings, their barriers, a barrier for each team's list,
// lists, bit maps of blocks, tables.
template <int kD>
struct WorkMemory {
  std::uint32_t units_at;     // of this warp's slot
  std::uint32_t barriers_at;  // of this warp's slot
  TileList list;              // of this warp's slot
  unsigned* block_maps;       // of this warp's slot
  std::int32_t* tables;

  __device__ WorkMemory(const FusedPlan& plan, int slot, unsigned char* shared) {
    const int units = plan.slots * plan.units;
    unsigned char* const barriers = shared + units * Rows<kD>::kUnitBytes;
    unsigned char* const ready = barriers + units * 16;
    Entry* const lists = reinterpret_cast<Entry*>(ready + kCtaWarps * 8);
    unsigned* const unit_words =
        reinterpret_cast<unsigned*>(lists + plan.slots * plan.list_capacity);
    unsigned* const maps = unit_words + plan.slots * plan.unit_capacity;
    units_at = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
               static_cast<std::uint32_t>(slot * plan.units * Rows<kD>::kUnitBytes);
    barriers_at = static_cast<std::uint32_t>(__cvta_generic_to_shared(barriers)) +
                  static_cast<std::uint32_t>(slot * plan.units * 16);
    list = {lists + slot * plan.list_capacity, unit_words + slot * plan.unit_capacity,
            static_cast<std::uint32_t>(__cvta_generic_to_shared(ready)) +
                static_cast<std::uint32_t>(slot * plan.row_tiles * 8)};
    block_maps = maps + slot * plan.map_words;
    tables = reinterpret_cast<std::int32_t*>(maps + plan.slots * plan.map_words);
  }

  // The list of team `index` of `teams`.
  __device__ TileList list_of(const FusedPlan& plan, int index, int teams) const {
    return {list.entries + index * (plan.list_capacity / teams),
            list.units + index * (plan.unit_capacity / teams),
            list.ready + static_cast<std::uint32_t>(index * (plan.row_tiles / teams) * 8)};
  }
  // The ring of a team where teams share out the slot's units.
  __device__ Ring ring_of(const FusedPlan& plan, const Team& team) const {
    const int teams = plan.row_tiles / team.tiles;
    const int units = plan.units / teams;
    const std::uint32_t first = static_cast<std::uint32_t>(team.first_tile / team.tiles * units);
    return {units_at + first * Rows<kD>::kUnitBytes, barriers_at + first * 16U, units};
  }
};

// Whether a CTA has parts to work on; else it finishes.
__device__ __forceinline__ bool works_on_parts(const FusedArguments& a) {
  return static_cast<int>(blockIdx.x) < a.kv_heads * a.plan.tiles * a.plan.part_blocks;
}
// The queries of a working CTA's group; `share`: which of the group's CTAs it is.
__device__ __forceinline__ Queries queries_of_cta(const FusedArguments& a, int& share) {
  const int groups = a.kv_heads * a.plan.tiles;
  const int block = static_cast<int>(blockIdx.x);
  share = a.plan.groups.quotient(block);
  return make_queries(a, block - share * groups);
}
// The lists' barriers of a working CTA, all of whose threads call it.
template <int kD>
__device__ __forceinline__ void start_lists(const FusedPlan& plan, unsigned char* shared) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kCtaWarps) {
    const int units = plan.slots * plan.units;
    barrier_init(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)) +
                     static_cast<std::uint32_t>(units * (Rows<kD>::kUnitBytes + 16) + thread * 8),
                 32);
  }
  __syncthreads();
}

// Barriers, ready for the copy engine once the CTA's next barrier is passed.
__device__ inline void start_ring(const Ring& ring, const Team& team) {
  if (team.thread == 0) {
    ring.init(team.tiles);
  }
  publish_barriers();
}
// The same for a CTA's next kind of parts, when all its units have been read: other teams may share
// out the units. A CTA of one slot.
__device__ inline void restart_ring(const FusedPlan& plan, const Ring& ring, const Team& team,
                                    std::uint32_t barriers_at) {
  work_sync();
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 2 * plan.units) {
    barrier_invalidate(barriers_at + static_cast<std::uint32_t>(thread) * 8U);
  }
  work_sync();
  if (team.thread == 0) {
    ring.init(team.tiles);
  }
  publish_barriers();
  work_sync();
}

// A tree's CTA takes registers from the warps that feed for those that work: the first thing that
// either do, so that the compiler knows what they have.
template <bool kFeeds>
__device__ __forceinline__ void take_registers() {
  if constexpr (kFeeds) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kFeedRegisters));
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kWorkRegisters));
  }
}

// First span of share `rank` of `tokens` compressed tokens.
template <bool kMany>
__device__ __forceinline__ int share_start(const FusedPlan& plan, int rank, int tokens) {
  if (!kMany) {
    return first_span(rank, plan.ranks, tokens);
  }
  const int join = rank * join_count(tokens) / plan.ranks;
  return join * kJoin < tokens ? span_of(join * kJoin) : span_count(tokens);
}

// The spans of share `rank` of the compressed tokens, and their tiles.
template <bool kMany>
__device__ __forceinline__ Job span_job(const Queries& t, const Team& team, int rank,
                                        const TileList& list) {
  const int visible = t.compressed_of(t.most_position + 1);
  Job job{true,
          kMany,
          0,
          share_start<kMany>(t.a.plan, rank, visible),
          share_start<kMany>(t.a.plan, rank + 1, visible),
          {0, 0}};
  job.count = list_compressed(t, team, job.part, job.end_part, list).entries;
  return job;
}

// Parts of the compressed tokens that a row which sees `seen` of them has in memory.
__device__ __forceinline__ int compressed_parts(const FusedPlan& plan, int seen) {
  return plan.joined ? join_count(seen) : span_count(seen);
}

// The CTA has stored its parts of group `group`; the release holds for all its threads, which the
// barrier orders before.
__device__ inline void arrive_at(const FusedArguments& a, int group) {
  work_sync();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;\n" ::"l"(a.counters + group * 2)
                 : "memory");
  }
}
// Counters of the group of node `node` of KV head g: parts that are there, finishing CTAs that are
// through.
__device__ inline unsigned* counters_of(const FusedArguments& a, int node, int g) {
  return a.counters + (g * a.plan.tiles + (node >> a.tile_bits)) * 2;
}
// Until all parts of that group are in memory. Returns to thread 0 how many finishing CTAs came
// before; the answer is on its way while rows are merged.
__device__ inline unsigned wait_for_parts(const FusedArguments& a, int node, int g) {
  unsigned before = 0;
  if (threadIdx.x == 0) {
    unsigned* const counters = counters_of(a, node, g);
    unsigned arrived = 0;
    while (true) {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n"
                   : "=r"(arrived)
                   : "l"(counters)
                   : "memory");
      if (arrived >= static_cast<unsigned>(a.plan.part_blocks)) {
        break;
      }
      __nanosleep(20);
    }
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;\n"
                 : "=r"(before)
                 : "l"(counters + 1)
                 : "memory");
  }
  work_sync();
  return before;
}
// At the end of a finishing CTA: the last one of a group leaves its counters zero.
__device__ inline void leave_parts(const FusedArguments& a, int node, int g, unsigned before) {
  if (threadIdx.x == 0) {
    const int nodes = min(a.tile_queries, a.nodes - (node & -a.tile_queries));
    if (before == static_cast<unsigned>((nodes - 1) >> a.plan.finish_bits)) {  // of the finishers
      unsigned* const counters = counters_of(a, node, g);
      counters[0] = 0U;
      counters[1] = 0U;
    }
  }
}

}  // namespace versieve::kernels
