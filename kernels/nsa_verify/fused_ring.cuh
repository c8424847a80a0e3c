// How tiles of keys and values flow into a CTA: teams of row tiles that share them, rings of units
// (a tile's keys, or its values) with full and empty barriers, bulk tensor copies. Where the draft
// tree begins, all of its rows come as units of 64: each query finds its path's among them.
#pragma once

#include "kernels/common/tile_copy.cuh"
#include "kernels/nsa_verify/fused.cuh"

namespace versieve::kernels {

__device__ inline void named_barrier(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// Row tiles that share tiles of keys and wait for each other only. The first warp loads them.
struct Team {
  int first_tile;
  int tiles;
  int thread;   // within the team
  int barrier;  // hardware barrier; 0 is the CTA's

  __device__ int threads() const { return tiles * 32; }
  __device__ void sync() const {
    if (tiles == 1) {
      __syncwarp();
    } else {
      named_barrier(barrier, threads());
    }
  }
};
// The team of this warp where teams of `tiles` share out the slot's row tiles.
__device__ inline Team make_team(const Queries& t, int tiles) {
  const int index = t.tile / tiles;
  const int first_warp = t.slot * t.a.plan.row_tiles + index * tiles;
  return {index * tiles, tiles, static_cast<int>(threadIdx.x) - first_warp * 32, 1 + first_warp};
}

// A team's units in shared memory and their barriers. A unit is full when its copies have landed,
// empty when all warps have read it; a team of one warp needs no telling.
struct Ring {
  std::uint32_t units_at;     // 1024-byte aligned
  std::uint32_t barriers_at;  // [units] full, empty alternating
  int units;

  __device__ std::uint32_t full(int place) const {
    return barriers_at + static_cast<std::uint32_t>(place) * 16U;
  }
  __device__ std::uint32_t empty(int place) const { return full(place) + 8U; }
  __device__ void init(int warps) const {
#pragma unroll 1
    for (int i = 0; i < units; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), 32 * warps);
    }
  }
};

// A place of a ring in turn, and the parity of its phase.
struct Cursor {
  int place = 0;
  int parity;

  __device__ __forceinline__ void advance(const Ring& ring) {
    if (++place == ring.units) {
      place = 0;
      parity ^= 1;
    }
  }
};

// Where the keys of a list's tail lie.
struct TileSource {
  int committed;   // rows of the cache
  int tree_boxes;  // units of keys (or of values) that hold all rows of the tree

  // Units of keys of a tail entry: those rows of its slice that are committed, then the tree.
  __device__ __forceinline__ bool reaches_back(int first) const { return first < committed; }
  __device__ __forceinline__ int boxes(int first) const {
    return tree_boxes + (reaches_back(first) ? 1 : 0);
  }
};

// Fills a team's ring with the units of its list in their order: of each entry keys, then values.
// The team's first warp calls it.
template <int kD>
struct Loader {
  const CUtensorMap* committed;  // keys, then values
  const CUtensorMap* tree;
  int g;  // KV head
  bool first_lane, shared_ring;
  const Ring& ring;
  const Entry* entries;
  int left;  // entries, from `entries` on
  TileSource from;
  int next = 0;     // unit loaded next
  Cursor at{0, 1};  // its place; parity of the phase in which what lay there before was read
  int box = 0;      // which of the entry's keys, then of its values
  // The entry's first eight bytes, fetched when the one before is done, so that nobody waits for
  // them: `first`; count in the lowest byte, and the sign of `tail`.
  int2 entry;

  __device__ __forceinline__ Loader(const Queries& t, const TileMaps& maps, bool compressed,
                                    bool is_shared, const Ring& units, const Entry* list, int count,
                                    TileSource source)
      : committed(&maps.committed[compressed ? 1 : 0][0]),
        tree(&maps.tree[compressed ? 1 : 0][0]),
        g(t.g),
        first_lane(t.lane == 0),
        shared_ring(is_shared),
        ring(units),
        entries(list),
        left(count),
        from(source) {
    // Kept, not computed again from the kernel's arguments at every load.
    asm volatile("" : "+l"(committed), "+l"(tree));
    fetch();
  }

  // One unit, if any is left.
  __device__ __forceinline__ void load() {
    if (left <= 0) {
      return;
    }
    const CUtensorMap* map = committed + box;
    int row = entry.x;
    int boxes = 1;
    if (entry.y >= 0) {
      boxes = from.boxes(entry.x);
      const int values = box >= boxes ? 1 : 0;
      const int tree_row =
          (box - values * boxes - (from.reaches_back(entry.x) ? 1 : 0)) * kTileKeys;
      map = (tree_row < 0 ? committed : tree) + values;
      row = tree_row < 0 ? entry.x : tree_row;
    }
    bring(map, row);
    if (++box == 2 * boxes) {
      const int entries_done = entry.y >= 0 ? static_cast<std::int8_t>(entry.y) : 1;
      box = 0;
      entries += entries_done;
      left -= entries_done;
      fetch();
    }
  }

 private:
  __device__ __forceinline__ void fetch() {
    if (left > 0) {
      entry = *reinterpret_cast<const int2*>(entries);
    }
  }
  __device__ __forceinline__ void bring(const CUtensorMap* map, int row) {
    const std::uint32_t full = ring.full(at.place);
    if (shared_ring && next >= ring.units) {
      barrier_wait(full + 8U, at.parity);
    }
    if (first_lane) {
      const std::uint32_t unit =
          ring.units_at + static_cast<std::uint32_t>(at.place * Rows<kD>::kUnitBytes);
      barrier_expect(full, Rows<kD>::kUnitBytes);
#pragma unroll
      for (int panel = 0; panel < kD / 64; ++panel) {
        copy_tile_async(unit + static_cast<std::uint32_t>(panel * kTileKeys * 128), map, panel * 64,
                        g, row, full);
      }
    }
    ++next;
    at.advance(ring);
  }
};

}  // namespace versieve::kernels
