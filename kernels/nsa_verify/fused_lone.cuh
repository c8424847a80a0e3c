// One node alone, as an autoregressive step has it: the same parts in the same order of sums as
// with others, so the same bits, in less code. A warp takes a part by itself. The node continues
// the committed chain, so there is no tail: its own token, and the compressed token that it may
// complete, are written into their places in the caches' tiles once the copy engine has filled
// them.
#pragma once

#include "kernels/nsa_verify/fused_attend.cuh"
#include "kernels/nsa_verify/fused_route.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::kernels {

// A tile: its first key, and the row of the caches in which that lies.
struct LoneTile {
  std::int32_t first, row;
};
static_assert(sizeof(LoneTile) <= sizeof(Entry));  // which the cut counts

// What a warp knows of the node; has the names that Queries has.
struct Lone {
  const FusedArguments& a;
  int g, lane;
  int position = 0;        // of the node: L
  int seen = 0;            // compressed tokens that end at or before it
  int own_compressed = 0;  // index of the one that it completes; else -1

  __device__ static int query_of(int) { return 0; }
  __device__ static int head_of(int row) { return row; }
  __device__ bool has_row(int row) const { return row < a.group_heads; }
  __device__ int row_index(int, int head) const { return g * a.group_heads + head; }
  __device__ int compressed_of(int tokens) const { return a.compressed_of(tokens); }
  __device__ __forceinline__ LoneTile tile_at(bool compressed, int first) const {
    return {first, a.row_of(compressed, first)};
  }
  // After the wait for what wrote the counts.
  __device__ __forceinline__ void locate() {
    const bool counted = a.counts != nullptr;
    position = counted ? a.counts->context_len : a.context_len;
    seen = compressed_of(position + 1);
    const int tree = counted ? a.counts->tree_compressed : a.tree_compressed;
    own_compressed = tree > 0 ? compressed_of(position) : -1;
  }
};

// Tiles of one kind that a warp runs through, ascending, in shared memory.
struct LoneList {
  bool compressed;
  LoneTile* tile;
  int count;
  int chunk;  // keys of a tile, unless `end` comes first
  int end;    // keys that there are
  int low;    // first that the node sees
  int own;    // index of the node's own key, -1: none
  int part, end_part;
  bool rehearsal = false;
};

// One tile of whatever lies in shared memory, copied by nobody: the loop's instructions are fetched
// while the warp waits for other launches. Leaves no part.
__device__ __forceinline__ LoneList lone_rehearsal(bool compressed, LoneTile* tile) {
  if (threadIdx.x % 32 == 0) {
    tile[0] = {0, 0};
  }
  return {compressed, tile, 1, kTileKeys, kTileKeys, 0, -1, 0, 0, true};
}

// Compressed tokens of spans [from, to).
__device__ __forceinline__ LoneList lone_spans(const Lone& t, int rank, LoneTile* tile) {
  const int from = first_span(rank, t.a.cut.ranks, t.seen);
  const int to = first_span(rank + 1, t.a.cut.ranks, t.seen);
  const int there = t.own_compressed >= 0 ? t.own_compressed + 1 : t.compressed_of(t.position);
  LoneList list{true, tile, 0, kTileKeys, min(span_start(to), there), 0, t.own_compressed,
                from, to};
  const int begin = span_start(from);
  list.count = max((list.end - begin + kTileKeys - 1) / kTileKeys, 0);
#pragma unroll 1
  for (int i = t.lane; i < list.count; i += 32) {
    tile[i] = t.tile_at(true, begin + i * kTileKeys);
  }
  return list;
}

// Chunks of the window whose number is `segment` modulo the window segments; without a window none.
__device__ __forceinline__ LoneList lone_window(const Lone& t, int segment, LoneTile* tile) {
  const int low = max(t.position - t.a.window + 1, 0);
  int chunk = low / kTileKeys;
  chunk += (chunk + segment) % kWindowSegments;
  const int chunks = t.position / kTileKeys + 1 - chunk;
  const int part = kSelectedSegments + segment;
  const int count = t.a.window > 0 ? max((chunks + kWindowSegments - 1) / kWindowSegments, 0) : 0;
#pragma unroll 1
  for (int i = t.lane; i < count; i += 32) {
    tile[i] = t.tile_at(false, (chunk + i * kWindowSegments) * kTileKeys);
  }
  return {false, tile, count, kTileKeys, t.position + 1, low, t.position, part, part + 1};
}

// The node's blocks (ascending, then -1) whose number is `segment` modulo the selected segments.
__device__ __forceinline__ LoneList lone_selected(const Lone& t, int segment, LoneTile* tile) {
  const FusedArguments& a = t.a;
  const int size = 1 << a.block_bits;
  const int each = (size + kTileKeys - 1) / kTileKeys;
  int count = 0;
#pragma unroll 1
  for (int base = 0; base < a.sel_count; base += 32) {
    const int i = base + t.lane;
    const int block = i < a.sel_count ? __ldcg(a.chosen + t.g * a.sel_count + i) : -1;
    const bool here =
        block >= 0 && block % kSelectedSegments == segment && block * size <= t.position;
    const unsigned found = __ballot_sync(0xFFFFFFFFU, here);
    if (here) {
      const int place = (count + __popc(found & ((1U << t.lane) - 1U))) * each;
#pragma unroll 1
      for (int of_block = 0; of_block < each; ++of_block) {
        tile[place + of_block] = t.tile_at(false, block * size + of_block * kTileKeys);
      }
    }
    count += __popc(found);
  }
  return {false, tile,       count * each, min(size, kTileKeys), t.position + 1,
          0,     t.position, segment,      segment + 1};
}

// The node's own key and value, lane i holding chunk i of each.
template <int kD>
struct OwnRow {
  uint4 chunk[2] = {};

  __device__ __forceinline__ OwnRow(const Lone& t, const LoneList& list) {
    const FusedArguments& a = t.a;
    const int element = t.g * a.head_dim + t.lane * 8;
    if (list.own >= 0 && t.lane * 8 < a.head_dim) {
      chunk[0] = __ldcg(
          reinterpret_cast<const uint4*>((list.compressed ? a.k_cmp_tree : a.k_tree) + element));
      chunk[1] = __ldcg(
          reinterpret_cast<const uint4*>((list.compressed ? a.v_cmp_tree : a.v_tree) + element));
    }
  }
  // Into row `row` (-1: nowhere) of a unit that has been filled. It lies in its list's last tile,
  // so nothing is copied there again.
  __device__ __forceinline__ void place(std::uint32_t unit, int row, uint4 own) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (row >= 0) {
      if (lane < kD / 8) {
        store_16(unit_chunk(unit, row, lane), own);
      }
      __syncwarp();
    }
  }
};

inline constexpr int kFirstUnits = 4;  // loaded before the first is waited for

// As run_entries, for one warp and shared tiles only.
template <int kD, int kHalves, class Keep>
__device__ __forceinline__ void run_lone(const Lone& t, const TileMaps& maps, LoneList list,
                                         const Ring& ring, Cursor& at, Rows<kD, kHalves>& rows,
                                         const Keep& keep) {
  const CUtensorMap* const keys = &maps.of[list.compressed ? 1 : 0][0];
  const CUtensorMap* const values = &maps.of[list.compressed ? 1 : 0][1];
  const int first_row = t.a.first_row[list.compressed ? 1 : 0][0];
  int next = 0;  // unit loaded next
  Cursor to = at;
  const auto load = [&] {
    if (next < 2 * list.count) {
      if (t.lane == 0) {
        const std::uint32_t full = ring.full(to.place);
        barrier_expect(full, list.rehearsal ? 0 : Rows<kD>::kUnitBytes);
#pragma unroll
        for (int panel = 0; !list.rehearsal && panel < kD / 64; ++panel) {
          copy_box_3d(ring.units_at + static_cast<std::uint32_t>(to.place * Rows<kD>::kUnitBytes +
                                                                 panel * kTileKeys * 128),
                      (next & 1) != 0 ? values : keys, panel * 64, t.g,
                      first_row + list.tile[next / 2].row, full);
        }
      }
      ++next;
      to.advance(ring);
    }
  };
#pragma unroll 1
  for (int i = min(ring.units, kFirstUnits); i > 0; --i) {
    load();
  }
  const OwnRow<kD> own(t, list);
  const PartPlaces places(t, list.compressed);
  int read = 0;
  const auto wait_for_unit = [&] {
    barrier_wait(ring.full(at.place), at.parity);
    return ring.units_at + static_cast<std::uint32_t>(at.place * Rows<kD>::kUnitBytes);
  };
  const auto unit_read = [&] {
    __syncwarp();
    at.advance(ring);
    ++read;
#pragma unroll 1
    for (int i = min(read + ring.units - next, 2); i > 0; --i) {
      load();
    }
  };
#pragma unroll 1
  for (int i = 0; i <= list.count; ++i) {
    if (list.compressed || i == list.count) {
      const int until = i == list.count ? list.end_part : span_of(list.tile[i].first);
#pragma unroll 1
      for (; list.part < until; ++list.part) {
        gather_sums(rows);
        store_part(t.a, places, list.part, rows);
      }
    }
    if (i == list.count) {
      break;
    }
    const int first = list.tile[i].first;
    const int count = min(list.chunk, list.end - first);
    const int own_at = list.own >= first && list.own < first + count ? list.own - first : -1;
    float s[kTileKeys / 8][4];
    const std::uint32_t unit = wait_for_unit();
    own.place(unit, own_at, own.chunk[0]);
    rows.score(unit, s);
    unit_read();
    if (count < kTileKeys || first < list.low) {
      const Entry entry{first, static_cast<std::int8_t>(count), -1, 0, 1};
      const int low[2] = {list.low, list.low};
      mask_scores<kHalves>(entry, low, t.lane, s);
    }
    const float offset[2] = {Rows<kD>::kGrid, Rows<kD>::kGrid};
    rows.weigh(s, offset);
    const std::uint32_t unit_of_values = wait_for_unit();
    own.place(unit_of_values, own_at, own.chunk[1]);
    std::uint32_t p[kSlots][4];
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      pack_weights(s[slot * 2], s[slot * 2 + 1], p[slot]);
      rows.add_values(unit_of_values, slot, p[slot]);
    }
    keep.tile(first, count, rows, s, p);
    unit_read();
  }
}

// This warp's ring and list in the CTA's shared memory, its barriers ready.
template <int kD>
__device__ __forceinline__ Ring lone_ring(const WorkMemory<kD>& memory, const FusedCut& cut) {
  const Ring ring{memory.units_at, memory.barriers_at, cut.units};
  if (threadIdx.x % 32 == 0) {
    ring.init(1);
  }
  publish_barriers();
  __syncwarp();
  return ring;
}

template <int kD, bool kCounts, int kHalves, class Calls>
__global__ void __launch_bounds__(kCtaWarps * 32, kD == 64 ? Calls::kLoneCtas : 1)
    nsa_route_lone_kernel(const __grid_constant__ Calls calls) {
  const FusedArguments& a = calls.mine();
  if (calls.leaves_idle(a)) {
    return;
  }
  const TileMaps& maps = calls.maps;
  extern __shared__ __align__(1024) unsigned char shared[];
  const int block = calls.block();
  if (block >= a.kv_heads * a.cut.part_blocks) {
    wait_for_predecessors();
    release_successors();
    finish_route<kD, kCounts, kCtaWarps * 32>(a, block - a.kv_heads * a.cut.part_blocks, shared);
    return;
  }
  const int warp = warp_of_block();
  const int share = a.groups.quotient(block);
  Lone t{a, block - share * a.kv_heads, static_cast<int>(threadIdx.x) % 32};
  prefetch_map(&maps.of[1][0]);
  prefetch_map(&maps.of[1][1]);
  prefetch_pages(a);
  const WorkMemory<kD> memory(a.cut, warp, shared);
  const Ring ring = lone_ring(memory, a.cut);
  LoneTile* const tiles = reinterpret_cast<LoneTile*>(memory.entries);
  const int rank = share * a.cut.slots + warp;
  const RowPlaces queries(t);
  Rows<kD, kHalves> rows{};
  Cursor at{0, 0};
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    const bool real = pass == 1;
    LoneList list{};
    if (!real) {
      list = lone_rehearsal(true, tiles);
    } else {
      wait_for_predecessors();
      release_successors();
      rows.load(a.head_dim, queries.at);
      t.locate();
      if (rank >= a.cut.ranks) {
        break;
      }
      list = lone_spans(t, rank, tiles);
    }
    __syncwarp();
    run_lone(t, maps, list, ring, at, rows, KeepWeights(t, real));
  }
  arrive_at(a, t.g);
}

template <int kD, bool kReuse, bool kAnnounced, int kHalves, class Calls>
__global__ void __launch_bounds__(kCtaWarps * 32, kD == 64 ? Calls::kLoneCtas : 1)
    nsa_attend_lone_kernel(const __grid_constant__ Calls calls) {
  const FusedArguments& a = calls.mine();
  if (calls.leaves_idle(a)) {
    return;
  }
  const TileMaps& maps = calls.maps;
  release_successors();
  extern __shared__ __align__(1024) unsigned char shared[];
  const int block = calls.block();
  if (block >= a.kv_heads * a.cut.part_blocks) {
    wait_for_predecessors();
    finish_attend<kD, kReuse, kAnnounced, kCtaWarps * 32>(a,
                                                          block - a.kv_heads * a.cut.part_blocks);
    return;
  }
  const int warp = warp_of_block();
  const int share = a.groups.quotient(block);
  Lone t{a, block - share * a.kv_heads, static_cast<int>(threadIdx.x) % 32};
  const int part = share * a.cut.slots + warp;
  const int segment = part - a.cut.ranks;
  const bool selected = segment >= 0 && segment < kSelectedSegments;
  prefetch_map(&maps.of[segment < 0 ? 1 : 0][0]);
  prefetch_map(&maps.of[segment < 0 ? 1 : 0][1]);
  prefetch_pages(a);
  const WorkMemory<kD> memory(a.cut, warp, shared);
  const Ring ring = lone_ring(memory, a.cut);
  LoneTile* const tiles = reinterpret_cast<LoneTile*>(memory.entries);
  const RowPlaces queries(t);
  Rows<kD, kHalves> rows{};
  Cursor at{0, 0};
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    LoneList list{};
    if (pass == 0) {
      list = lone_rehearsal(false, tiles);
    } else {
      if constexpr (kReuse) {
        wait_for_predecessors();
      }
      // As in nsa_attend_kernel: all but the chosen blocks is older than nsa_route.
      rows.load(a.head_dim, queries.at);
      t.locate();
      if (segment >= kSegments) {
        break;
      }
      if (kReuse && segment < 0) {
        list = lone_spans(t, part, tiles);
      } else if (selected) {
        if constexpr (!kReuse) {
          wait_for_predecessors();
        }
        list = lone_selected(t, segment, tiles);
      } else {
        list = lone_window(t, segment - kSelectedSegments, tiles);
      }
    }
    __syncwarp();
    run_lone(t, maps, list, ring, at, rows, KeepNothing{});
  }
  if constexpr (!kAnnounced) {
    arrive_at(a, t.g);
  }
}

}  // namespace versieve::kernels
