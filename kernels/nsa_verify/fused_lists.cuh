// Which tiles of keys a team runs through: the union of its groups' blocks (each block once a
// group, with a mask of the queries that chose it), chunks of the window, chunks of compressed
// tokens; then the tail, the slices that reach into the draft tree, where every node has keys of
// its own.
//
// One warp makes a list, which knows the positions.
#pragma once

#include "kernels/nsa_verify/fused_ring.cuh"
#include "kernels/nsa_verify/fused_tables.cuh"

namespace versieve::kernels {

// Bits of positions slice + i that lie in [low, high].
__device__ inline unsigned slice_bits(int slice, int low, int high) {
  const int from = max(low - slice, 0);
  const int to = min(high - slice, kSliceKeys - 1);
  return from <= to ? (2U << to) - (1U << from) : 0U;
}

// A shared tile's entry and its units, `at` entries and 2 `at` units behind `to`.
__device__ __forceinline__ void put_shared(const FusedArguments& a, bool compressed,
                                           const TileList& list, ListLength to, int at,
                                           const Entry& entry) {
  const int row = a.row_of(compressed, entry.first);
  list.entries[to.entries + at] = entry;
  list.units[to.units + at * 2] = unit_word(row, false, false);
  list.units[to.units + at * 2 + 1] = unit_word(row, false, true);
}

// Behind the last unit: the list is there, for those who work and for those who feed. There is
// room, for a slot's second list too: a tail's entries count two each.
__device__ __forceinline__ void end_list(const Queries& t, const TileList& list,
                                         const ListLength& length) {
  if (t.lane == 0) {
    list.units[length.units] = kListEnd;
    *list.length = length;
  }
  barrier_arrive(list.ready);
}

// Appends tail entries of part_of(slice start) for slices first, first + 16, ... <= last in
// ascending order. valid_of(query of the tile, slice start) gives the visible positions' bits;
// slices that nobody sees are left out unless `all`. `length` stands before; the new one.
template <class PartOf, class ValidOf>
__device__ __forceinline__ ListLength append_tails(const Queries& t, const Team& team,
                                                   const TileSource& from, const PartOf& part_of,
                                                   int first, int last, bool all,
                                                   const TileList& list, ListLength length,
                                                   const ValidOf& valid_of) {
  const int slices = last >= first ? (last - first) / kSliceKeys + 1 : 0;
  const int each = team.tiles * t.tail_groups;  // 1, 2, 4, 8 or 16
#pragma unroll 1
  for (int base = 0; base < slices * each; base += 32) {
    const int i = base + t.lane;
    Entry e{};
    if (i < slices * each) {
      const int slice = i / each;
      const int group = i - slice * each;
      e.first = first + slice * kSliceKeys;
      e.part = static_cast<std::int16_t>(part_of(e.first));
      e.tail = static_cast<std::int8_t>(group * min(kFusedTailQueries, t.per_tile));
      const int query = team.first_tile * t.per_tile + e.tail;
#pragma unroll 1
      for (int slot = 0; slot < min(kFusedTailQueries, t.per_tile); ++slot) {
        const unsigned bits = query + slot < t.count ? valid_of(query + slot, e.first) : 0U;
        e.bits |= static_cast<std::uint64_t>(bits) << (slot * kSliceKeys);
      }
    }
    const bool any = e.bits != 0 || (all && i < slices * each);
    const unsigned before = (1U << t.lane) - 1U;
    const unsigned found = __ballot_sync(0xFFFFFFFFU, any);
    const unsigned slice = ((1U << each) - 1U) << (t.lane & -each);
    e.count = static_cast<std::int8_t>(__popc(found & slice & ~before));
    if (any) {
      list.entries[length.entries + __popc(found & before)] = e;
    }
    // The first entry of a slice brings its units.
    const bool leads = any && (found & slice & before) == 0U;
    const bool back = from.reaches_back(e.first);
    const unsigned leaders = __ballot_sync(0xFFFFFFFFU, leads);
    const unsigned backs = __ballot_sync(0xFFFFFFFFU, leads && back);
    if (leads) {
      std::uint32_t* to = list.units + length.units +
                          2 * (__popc(leaders & before) * from.tree_boxes + __popc(backs & before));
#pragma unroll 1
      for (int values = 0; values < 2; ++values) {
        if (back) {
          *to++ = unit_word(t.a.row_of(from.compressed, e.first), false, values != 0);
        }
#pragma unroll 1
        for (int box = 0; box < from.tree_boxes; ++box) {
          *to++ = unit_word(box * kTileKeys, true, values != 0);
        }
      }
    }
    length.entries += __popc(found);
    length.units += 2 * (__popc(leaders) * from.tree_boxes + __popc(backs));
  }
  return length;
}

// The first of the lists' entries of a team's queries, fetched before anything waits for them:
// entry lane + 32 i.
struct EarlyLists {
  static constexpr int kMost = 4;
  std::int32_t block[kMost];

  __device__ __forceinline__ void fetch(const Queries& t, const Team& team) {
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      block[i] = listed_block(t, team, t.lane + i * 32);
    }
  }
  // Entry `at` of the lists of a team's queries one behind the other; -1: none.
  __device__ __forceinline__ static int listed_block(const Queries& t, const Team& team, int at) {
    const FusedArguments& a = t.a;
    const int query = a.list_length.quotient(at);
    const int of_tile = team.first_tile * t.per_tile + query;
    return query < team.tiles * t.per_tile && of_tile < t.count
               ? __ldcg(a.chosen + t.pair_index(of_tile) * a.sel_count + at - query * a.sel_count)
               : -1;
  }
};

// Segments of selected blocks in the order in which CTAs of many parts share them out: that in
// which the tree begins is the first, as the cut expects (model/launches/fused_parts.h), the others
// follow.
struct SegmentTurn {
  int shift = 0;  // the first; CTAs of one part each do not turn

  __device__ __forceinline__ int segment_at(int place) const {
    const int segment = place + shift;
    return segment < kSelectedSegments ? segment : segment - kSelectedSegments;
  }
  __device__ __forceinline__ int place_of(int segment) const {
    const int place = segment - shift;
    return place < 0 ? place + kSelectedSegments : place;
  }
};
template <bool kMany>
__device__ __forceinline__ SegmentTurn segment_turn(const Queries& t) {
  return {kMany ? (t.shared_tokens >> t.a.block_bits) % kSelectedSegments : 0};
}

// Bit maps of the blocks that a team's queries list, by segment: [team queries, segments, words],
// bit by block number / 6.
struct BlockMaps {
  unsigned* words;
  int from, segments;  // the first segment's place, and how many
  SegmentTurn turn;

  __device__ __forceinline__ unsigned* of(int query, int place, int pitch) const {
    return words + (query * segments + place - from) * pitch;
  }
};

// Fills the maps.
__device__ __forceinline__ void map_blocks(const Queries& t, const Team& team,
                                           const BlockMaps& maps, const EarlyLists& early) {
  const FusedArguments& a = t.a;
  const int queries = team.tiles * t.per_tile;
  const int words = a.words.value;
#pragma unroll 1
  for (int i = t.lane; i < queries * maps.segments * words; i += 32) {
    maps.words[i] = 0U;
  }
  __syncwarp();
  const auto note = [&](int i, int block) {
    const int number = block / kSelectedSegments;
    const int place = maps.turn.place_of(block - number * kSelectedSegments);
    if (block >= 0 && place >= maps.from && place < maps.from + maps.segments) {
      atomicOr(maps.of(a.list_length.quotient(i), place, words) + number / 32, 1U << (number & 31));
    }
  };
#pragma unroll
  for (int i = 0; i < EarlyLists::kMost; ++i) {
    note(t.lane + i * 32, early.block[i]);
  }
#pragma unroll 1
  for (int i = t.lane + EarlyLists::kMost * 32; i < queries * a.sel_count; i += 32) {
    note(i, EarlyLists::listed_block(t, team, i));
  }
  __syncwarp();
}

// Blocks of each query's list whose number is that of a segment modulo the selected segments, so
// that a block is one segment's whoever lists it; each group's blocks ascending, once. The number
// of entries; the tail's are not among them.
__device__ __forceinline__ int list_blocks(const Queries& t, const Team& team,
                                           const BlockMaps& maps, int segment_place,
                                           const TileList& list, ListLength length) {
  const FusedArguments& a = t.a;
  const int segment = maps.turn.segment_at(segment_place);
  const int words = a.words.value;
  const int block_size = 1 << a.block_bits;
  const int parts = (block_size + kTileKeys - 1) / kTileKeys;
  const int whole_blocks = (t.shared_tokens + block_size - 1) >> a.block_bits;
  const int group = a.cut.group;
  const int items = team.tiles * t.per_tile / group * words;
  // A word's bits are shared out to as many lanes as there are for it, a power of two.
  const int lane_bits = max(__clz(items - 1) - 27, 0);
  const int width = 32 >> lane_bits;
  const unsigned own_bits = (0xFFFFFFFFU >> (32 - width)) << (t.lane % (1 << lane_bits) * width);
  int count = 0;
#pragma unroll 1
  for (int base = 0; base < items << lane_bits; base += 32) {
    const int item = (base + t.lane) >> lane_bits;
    const int from_group = a.words.quotient(item);
    const int word = item - from_group * words;
    const unsigned* const map = maps.of(from_group * group, segment_place, words) + word;
    unsigned bits = 0U;
    unsigned listed[kFusedMostShared] = {};  // by query of the group
    if (item < items) {
#pragma unroll
      for (int query = 0; query < kFusedMostShared; ++query) {
        listed[query] = query < group ? map[query * maps.segments * words] : 0U;
        bits |= listed[query];
      }
      // Blocks past the shared tokens are the tail's.
      const int numbers = (whole_blocks - segment + kSelectedSegments - 1) / kSelectedSegments;
      const int left = numbers - word * 32;
      bits &= own_bits & (left >= 32 ? 0xFFFFFFFFU : left > 0 ? (1U << left) - 1U : 0U);
    }
    int end = __popc(bits);
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2) {
      const int other = __shfl_up_sync(0xFFFFFFFFU, end, apart);
      end += t.lane >= apart ? other : 0;
    }
    int place = count + end - __popc(bits);
    count += __shfl_sync(0xFFFFFFFFU, end, 31);
#pragma unroll 1
    for (; bits != 0U; bits &= bits - 1U, ++place) {
      const int bit = __ffs(static_cast<int>(bits)) - 1;
      const int block = (word * 32 + bit) * kSelectedSegments + segment;
      std::uint32_t owners = 0U;
#pragma unroll
      for (int query = 0; query < kFusedMostShared; ++query) {
        owners |= (listed[query] >> bit & 1U) << query;
      }
      owners <<= from_group * group;
#pragma unroll 1
      for (int part = 0; part < parts; ++part) {
        const int first = block * block_size + part * kTileKeys;
        const int end_key = min(min((block + 1) * block_size, first + kTileKeys), t.shared_tokens);
        put_shared(a, false, list, length, place * parts + part,
                   {first, static_cast<std::int8_t>(max(end_key - first, 0)), -1,
                    static_cast<std::int16_t>(segment_place), owners});
      }
    }
  }
  return count * parts;
}

// Tiles of selected blocks of the segments at the places `range` among those of a slot, segment
// after segment; an entry's part is its place. `words`: [team queries, segments of the slot, words
// of a bit map], filled with the first of them.
__device__ __forceinline__ void list_selected(const Queries& t, const Team& team, SegmentRange slot,
                                              SegmentRange range, SegmentTurn turn, unsigned* words,
                                              const EarlyLists& early, const TileList& list) {
  const FusedArguments& a = t.a;
  const int first_query = team.first_tile * t.per_tile;
  const BlockMaps maps{words, slot.from, slot.to - slot.from, turn};
  const TileSource from(t, false);
  if (range.from == slot.from) {
    map_blocks(t, team, maps, early);
  }
  ListLength length;
#pragma unroll 1
  for (int place = range.from; place < range.to; ++place) {
    const int segment = turn.segment_at(place);
    const int shared = list_blocks(t, team, maps, place, list, length);
    length.entries += shared;
    length.units += 2 * shared;
    length = append_tails(
        t, team, from, [&](int) { return place; }, t.shared_tokens, t.most_position, false, list,
        length,
        [&](int query, int slice) {
          const int block = slice >> a.block_bits;
          const int number = block / kSelectedSegments;
          const unsigned* const map = maps.of(query - first_query, place, a.words.value);
          const bool chosen = block - number * kSelectedSegments == segment &&
                              (map[number / 32] >> (number & 31) & 1U) != 0U;
          return chosen ? slice_bits(slice, 0, t.position[query]) : 0U;
        });
  }
  end_list(t, list, length);
}

// Chunks of 64 positions of the window whose number is, modulo the window segments, that of one of
// the segments (counted from kSelectedSegments on), segment after segment.
__device__ __forceinline__ void list_window(const Queries& t, const Team& team, SegmentRange range,
                                            const TileList& list) {
  const int window = t.a.window;
  int least = INT32_MAX;
  int most = -1;
#pragma unroll 1
  for (int i = t.lane; i < t.count; i += 32) {
    least = min(least, t.position[i]);
    most = max(most, t.position[i]);
  }
  least = __reduce_min_sync(0xFFFFFFFFU, least);
  most = __reduce_max_sync(0xFFFFFFFFU, most);
  const TileSource from(t, false);
  ListLength length;
#pragma unroll 1
  for (int segment = range.from; segment < range.to && most >= 0 && window > 0; ++segment) {
    const int rest = segment - kSelectedSegments;
    int chunk = max(least - window + 1, 0) / kTileKeys;
    chunk += (chunk + rest) % kWindowSegments;
    const int end = (t.shared_tokens + kTileKeys - 1) / kTileKeys;
    const int chunks = end > chunk ? (end - chunk + kWindowSegments - 1) / kWindowSegments : 0;
#pragma unroll 1
    for (int i = t.lane; i < chunks; i += 32) {
      const int first = (chunk + i * kWindowSegments) * kTileKeys;
      put_shared(t.a, false, list, length, i,
                 {first, static_cast<std::int8_t>(min(kTileKeys, t.shared_tokens - first)), -1,
                  static_cast<std::int16_t>(segment), 0xFFFFFFFFU});
    }
    length.entries += chunks;
    length.units += 2 * chunks;
    // Slices of this segment's chunks.
    const int tail = t.shared_tokens / kTileKeys % kWindowSegments == rest
                         ? t.shared_tokens
                         : (t.shared_tokens & -kTileKeys) + kTileKeys;
    length = append_tails(
        t, team, from, [&](int) { return segment; }, tail, most, false, list, length,
        [&](int query, int slice) {
          const int position = t.position[query];
          return slice / kTileKeys % kWindowSegments == rest
                     ? slice_bits(slice, position - window + 1, position)
                     : 0U;
        });
  }
  end_list(t, list, length);
}

// Chunks of compressed tokens of spans [from, to).
__device__ __forceinline__ void list_compressed(const Queries& t, const Team& team, int from,
                                                int to, const TileList& list) {
  const int begin = span_start(from) / kTileKeys;
  const int shared_end = min(span_start(to), t.shared_compressed);
  const int end = (shared_end + kTileKeys - 1) / kTileKeys;
  const int count = max(end - begin, 0);
#pragma unroll 1
  for (int i = t.lane; i < count; i += 32) {
    const int first = (begin + i) * kTileKeys;
    put_shared(t.a, true, list, {}, i,
               {first, static_cast<std::int8_t>(min(kTileKeys, shared_end - first)), -1,
                static_cast<std::int16_t>(span_of(first)), 0xFFFFFFFFU});
  }
  barrier_wait(t.tables_ready, 0);
  const int first_tail = max(t.shared_compressed & -kSliceKeys, span_start(from));
  const int last =
      t.tree_compressed > 0 ? min(t.compressed_of(t.most_position + 1), span_start(to)) - 1 : -1;
  const ListLength length = append_tails(
      t, team, TileSource(t, true), [](int slice) { return span_of(slice); }, first_tail, last,
      true, list, {count, 2 * count},
      [&](int query, int slice) {
        unsigned bits = slice_bits(slice, 0, min(t.seen_by(query), last + 1) - 1);
#pragma unroll 1
        for (int i = max(t.committed - slice, 0); i < kSliceKeys; ++i) {
          const int at = slice + i - t.committed;
          if (at >= t.a.cut.path_compressed ||
              t.path_row[query * t.a.cut.path_compressed + at] < 0) {
            bits &= ~(1U << i);
          }
        }
        return bits;
      });
  end_list(t, list, length);
}

}  // namespace versieve::kernels
