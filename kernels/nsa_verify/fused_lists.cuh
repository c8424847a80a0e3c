// Which tiles of keys a team runs through: the union of its groups' blocks (each block once a group,
// with a mask of the queries that chose it), chunks of the window, chunks of compressed tokens; then
// the tail, the slices that reach into the draft tree, where every node has keys of its own.
#pragma once

#include "kernels/nsa_verify/fused.cuh"

namespace versieve::kernels {

// Bits of positions slice + i that lie in [low, high].
__device__ inline unsigned slice_bits(int slice, int low, int high) {
  const int from = max(low - slice, 0);
  const int to = min(high - slice, kSliceKeys - 1);
  return from <= to ? (2U << to) - (1U << from) : 0U;
}

// Appends tail entries for slices first, first + 16, ... <= last in ascending order. valid_of(query
// of the tile, slice start) gives the visible positions' bits. `count` entries stand before. All
// warps of the team get the new count; the entries are there after the team's next barrier.
template <class ValidOf>
__device__ __forceinline__ int append_tails(const Queries& t, const Team& team, int first, int last,
                                            Entry* entries, int count, const ValidOf& valid_of) {
  const int slices = last >= first ? (last - first) / kSliceKeys + 1 : 0;
  const int each = team.tiles * t.tail_groups;
#pragma unroll 1
  for (int base = 0; base < slices * each; base += 32) {
    const int i = base + t.lane;
    Entry e{};
    if (i < slices * each) {
      const int slice = i / each;
      const int group = i - slice * each;
      e.first = first + slice * kSliceKeys;
      e.tail = group * min(kTailQueries, t.per_tile);
      const int query = team.first_tile * t.per_tile + e.tail;
#pragma unroll 1
      for (int slot = 0; slot < min(kTailQueries, t.per_tile); ++slot) {
        const unsigned bits = query + slot < t.count ? valid_of(query + slot, e.first) : 0U;
        e.valid |= static_cast<std::uint64_t>(bits) << (slot * kSliceKeys);
      }
    }
    const bool any = e.valid != 0;
    const unsigned found = __ballot_sync(0xFFFFFFFFU, any);
    if (any && team.thread < 32) {
      entries[count + __popc(found & ((1U << t.lane) - 1U))] = e;
    }
    count += __popc(found);
  }
  return count;
}

// Blocks of segment `segment` of each query's list. `candidates`: [2, team queries, per segment].
__device__ __forceinline__ int list_selected(const Queries& t, const Team& team, int segment,
                                             std::int32_t* candidates, int* counter,
                                             Entry* entries) {
  const FusedArguments& a = t.a;
  const int n = a.sel_count;
  const int ranks = (n + kSelectedSegments - 1) / kSelectedSegments;
  const int first_query = team.first_tile * t.per_tile;
  const int group_ranks = a.plan.group * ranks;
  const int count = team.tiles * t.per_tile * ranks;
#pragma unroll 1
  for (int i = team.thread; i < count; i += team.threads()) {
    const int query = i / ranks;
    const int rank = segment * ranks + i - query * ranks;
    candidates[i] = first_query + query < t.count && rank < n
                        ? __ldcg(a.chosen + t.pair_index(first_query + query) * n + rank)
                        : -1;
  }
  if (team.thread == 0) {
    *counter = 0;
  }
  team.sync();
  // The first query of a group that lists a block stands for it.
  std::int32_t* const leaders = candidates + count;
#pragma unroll 1
  for (int i = team.thread; i < count; i += team.threads()) {
    const int block = candidates[i];
    bool first = block >= 0 && (block << a.block_bits) < t.shared_tokens;
#pragma unroll 1
    for (int j = i / group_ranks * group_ranks; j < i / ranks * ranks; ++j) {
      first = first && candidates[j] != block;
    }
    leaders[i] = first ? block : INT32_MAX;
  }
  team.sync();
  const int block_size = 1 << a.block_bits;
  const int parts = (block_size + kTileKeys - 1) / kTileKeys;
#pragma unroll 1
  for (int i = team.thread; i < count; i += team.threads()) {
    const int block = leaders[i];
    if (block == INT32_MAX) {
      continue;
    }
    // Its place: the number of such pairs (group, block) that come before.
    const int group_begin = i / group_ranks * group_ranks;
    const int group_end = min(group_begin + group_ranks, count);
    int place = 0;
#pragma unroll 1
    for (int j = 0; j < group_begin; ++j) {
      place += leaders[j] != INT32_MAX ? 1 : 0;
    }
    std::uint32_t owners = 0U;
    std::uint32_t bit = 1U << (group_begin / ranks);
    int rank = 0;
#pragma unroll 1
    for (int j = group_begin; j < group_end; ++j) {
      place += leaders[j] < block ? 1 : 0;
      owners |= candidates[j] == block ? bit : 0U;
      if (++rank == ranks) {
        rank = 0;
        bit <<= 1;
      }
    }
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      const int first = block * block_size + part * kTileKeys;
      const int end = min(min((block + 1) * block_size, first + kTileKeys), t.shared_tokens);
      entries[place * parts + part] = {first, max(end - first, 0), owners, -1, 0};
    }
    atomicAdd(counter, 1);
  }
  team.sync();
  const int listed =
      append_tails(t, team, t.shared_tokens, t.most_position, entries, *counter * parts,
                   [&](int query, int slice) {
                     const int* mine = candidates + (query - first_query) * ranks;
                     bool chosen = false;
#pragma unroll 1
                     for (int k = 0; k < ranks; ++k) {
                       chosen |= mine[k] == slice >> a.block_bits;
                     }
                     return chosen ? slice_bits(slice, 0, t.position[query]) : 0U;
                   });
  team.sync();
  return listed;
}

// Chunks of 64 positions of the window whose number is `segment` modulo the window segments.
__device__ __forceinline__ int list_window(const Queries& t, const Team& team, int segment,
                                           Entry* entries) {
  const int window = t.a.window;
  const int first_query = team.first_tile * t.per_tile;
  const int team_queries = min(team.tiles * t.per_tile, t.count - first_query);
  int least = INT32_MAX;
  int most = -1;
#pragma unroll 1
  for (int i = t.lane; i < team_queries; i += 32) {
    least = min(least, t.position[first_query + i]);
    most = max(most, t.position[first_query + i]);
  }
  least = __reduce_min_sync(0xFFFFFFFFU, least);
  most = __reduce_max_sync(0xFFFFFFFFU, most);
  if (most < 0) {
    return 0;
  }
  int chunk = max(least - window + 1, 0) / kTileKeys;
  chunk += (chunk + segment) % kWindowSegments;
  const int end = (t.shared_tokens + kTileKeys - 1) / kTileKeys;
  const int count = end > chunk ? (end - chunk + kWindowSegments - 1) / kWindowSegments : 0;
#pragma unroll 1
  for (int i = team.thread; i < count; i += team.threads()) {
    const int first = (chunk + i * kWindowSegments) * kTileKeys;
    std::uint32_t owners = 0U;
#pragma unroll 1
    for (int query = 0; query < team_queries; ++query) {
      const int low = t.position[first_query + query] - window + 1;
      owners |= first + kTileKeys > low ? 1U << query : 0U;
    }
    entries[i] = {first, min(kTileKeys, t.shared_tokens - first), owners, -1, 0};
  }
  const int listed =
      append_tails(t, team, t.shared_tokens, most, entries, count, [&](int query, int slice) {
        const int position = t.position[query];
        return slice / kTileKeys % kWindowSegments == segment
                   ? slice_bits(slice, position - window + 1, position)
                   : 0U;
      });
  team.sync();
  return listed;
}

// Chunks of compressed tokens of spans [from, to), for the whole CTA.
__device__ __forceinline__ int list_compressed(const Queries& t, const Team& team, int from, int to,
                                               Entry* entries) {
  const int begin = span_start(from) / kTileKeys;
  const int shared_end = min(span_start(to), t.shared_compressed);
  const int end = (shared_end + kTileKeys - 1) / kTileKeys;
  const int count = max(end - begin, 0);
#pragma unroll 1
  for (int i = team.thread; i < count; i += team.threads()) {
    const int first = (begin + i) * kTileKeys;
    entries[i] = {first, min(kTileKeys, shared_end - first), 0xFFFFFFFFU, -1, 0};
  }
  const int first_tail = max(t.shared_compressed & -kSliceKeys, span_start(from));
  const int last = t.tree_compressed > 0
                       ? min(t.compressed_of(t.most_position + 1), span_start(to)) - 1
                       : -1;
  const int listed =
      append_tails(t, team, first_tail, last, entries, count, [&](int query, int slice) {
        unsigned bits = slice_bits(slice, 0, min(t.seen_by(query), last + 1) - 1);
#pragma unroll 1
        for (int i = max(t.committed - slice, 0); i < kSliceKeys; ++i) {
          const int at = slice + i - t.committed;
          if (at >= t.a.plan.path_compressed ||
              t.path_row[query * t.a.plan.path_compressed + at] < 0) {
            bits &= ~(1U << i);
          }
        }
        return bits;
      });
  team.sync();
  return listed;
}

}  // namespace versieve::kernels
