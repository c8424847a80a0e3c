// Which tiles of keys a team runs through: the union of its groups' blocks (each block once a
// group, with a mask of the queries that chose it), chunks of the window, chunks of compressed
// tokens; then the tail, the slices that reach into the draft tree, where every node has keys of
// its own.
#pragma once

#include "kernels/nsa_verify/fused_ring.cuh"

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

// Blocks of each query's list whose number is `segment` modulo the selected segments, so that a
// block is one segment's whoever lists it. `lists`: [2, team queries, n], `counts`: [2].
__device__ __forceinline__ int list_selected(const Queries& t, const Team& team, int segment,
                                             std::int32_t* lists, int* counts, Entry* entries) {
  const FusedArguments& a = t.a;
  const int n = a.sel_count;
  const int first_query = team.first_tile * t.per_tile;
  const int queries = team.tiles * t.per_tile;
  std::int32_t* const leaders = lists + queries * n;
  int* const longest = counts;
  int* const total = counts + 1;
  if (team.thread < 2) {
    counts[team.thread] = 0;
  }
  team.sync();
  // A warp a query: its blocks of the segment move up, in order.
#pragma unroll 1
  for (int query = team.thread / 32; query < queries; query += team.threads() / 32) {
    int count = 0;
#pragma unroll 1
    for (int base = 0; base < n; base += 32) {
      const int rank = base + t.lane;
      const int block = first_query + query < t.count && rank < n
                            ? __ldcg(a.chosen + t.pair_index(first_query + query) * n + rank)
                            : -1;
      const bool mine = block >= 0 && block % kSelectedSegments == segment;
      const unsigned found = __ballot_sync(0xFFFFFFFFU, mine);
      if (mine) {
        lists[query * n + count + __popc(found & ((1U << t.lane) - 1U))] = block;
      }
      count += __popc(found);
    }
    if (t.lane == 0) {
      if (count < n) {
        lists[query * n + count] = -1;
      }
      atomicMax(longest, count);
    }
  }
  team.sync();
  const int width = *longest;
  // The first query of a group that lists a block stands for it.
#pragma unroll 1
  for (int i = team.thread; i < queries * width; i += team.threads()) {
    const int query = i / width;
    const int at = query * n + i - query * width;
    int block = INT32_MAX;
    bool listed = true;
#pragma unroll 1
    for (int j = query * n; j <= at; ++j) {
      listed = listed && lists[j] >= 0;
    }
    if (listed && (lists[at] << a.block_bits) < t.shared_tokens) {
      block = lists[at];
    }
#pragma unroll 1
    for (int other = query / a.plan.group * a.plan.group; other < query && block != INT32_MAX;
         ++other) {
#pragma unroll 1
      for (int j = other * n; j < other * n + width && lists[j] >= 0; ++j) {
        block = lists[j] == block ? INT32_MAX : block;
      }
    }
    leaders[at] = block;
  }
  team.sync();
  const int block_size = 1 << a.block_bits;
  const int parts = (block_size + kTileKeys - 1) / kTileKeys;
#pragma unroll 1
  for (int i = team.thread; i < queries * width; i += team.threads()) {
    const int query = i / width;
    const int block = leaders[query * n + i - query * width];
    if (block == INT32_MAX) {
      continue;
    }
    // Its place: the number of such pairs (group, block) that come before.
    const int group_begin = query / a.plan.group * a.plan.group;
    const int group_end = min(group_begin + a.plan.group, queries);
    int place = 0;
    std::uint32_t owners = 0U;
#pragma unroll 1
    for (int other = 0; other < group_end; ++other) {
#pragma unroll 1
      for (int j = other * n; j < other * n + width; ++j) {
        if (lists[j] < 0) {
          break;
        }
        const int leader = leaders[j];
        place += leader < (other < group_begin ? INT32_MAX : block) ? 1 : 0;
        owners |= other >= group_begin && lists[j] == block ? 1U << other : 0U;
      }
    }
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      const int first = block * block_size + part * kTileKeys;
      const int end = min(min((block + 1) * block_size, first + kTileKeys), t.shared_tokens);
      entries[place * parts + part] = {first, max(end - first, 0), owners, -1, 0};
    }
    atomicAdd(total, 1);
  }
  team.sync();
  const int listed = append_tails(t, team, t.shared_tokens, t.most_position, entries,
                                  *total * parts, [&](int query, int slice) {
                                    const int* mine = lists + (query - first_query) * n;
                                    bool chosen = false;
#pragma unroll 1
                                    for (int k = 0; k < width && mine[k] >= 0; ++k) {
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
  const int last =
      t.tree_compressed > 0 ? min(t.compressed_of(t.most_position + 1), span_start(to)) - 1 : -1;
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
