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

// Row tiles that share tiles of keys and wait for each other only. Their first warps load them.
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
  __device__ __forceinline__ void advance(const Ring& ring, int by) {
    place += by;
    if (place >= ring.units) {
      place -= ring.units;
      parity ^= 1;
    }
  }
};

// Where the keys of a list's tail lie.
struct TileSource {
  int committed;   // rows of the cache
  int tree_boxes;  // units of keys (or of values) that hold all rows of the tree

  __device__ __forceinline__ TileSource(const Queries& t, bool compressed)
      : committed(compressed ? t.committed : t.context_len),
        tree_boxes(((compressed ? t.tree_compressed : t.a.nodes) + kTileKeys - 1) / kTileKeys) {}
  // Units of keys of a tail entry: those rows of its slice that are committed, then the tree.
  __device__ __forceinline__ bool reaches_back(int first) const { return first < committed; }
  __device__ __forceinline__ int boxes(int first) const {
    return tree_boxes + (reaches_back(first) ? 1 : 0);
  }
};
// Words of TileList::units.
inline constexpr std::uint32_t kTreeUnit = 2U;
__device__ __forceinline__ std::uint32_t unit_word(int row, bool tree, bool values) {
  return static_cast<std::uint32_t>(row) * 4U + (tree ? kTreeUnit : 0U) + (values ? 1U : 0U);
}

// Fills a team's ring with its units in their order: every `step`-th of them, where others of the
// team's warps bring the rest.
template <int kD>
struct Loader {
  const CUtensorMap* maps;  // the four of TileMaps
  int g;                    // KV head
  bool first_lane, shared_ring;
  const Ring& ring;
  const std::uint32_t* units;
  int total;
  int next, step;          // unit loaded next, and how many behind it the one after that is
  Cursor at;               // its place; parity of the phase in which what lay there before was read
  std::uint32_t word = 0;  // of that unit: fetched before it is wanted

  __device__ __forceinline__ Loader(const Queries& t, const TileMaps& all, bool compressed,
                                    bool is_shared, const Ring& places, const std::uint32_t* list,
                                    int count, int first, int apart)
      : maps(&all.of[compressed ? 1 : 0][0]),
        g(t.g),
        first_lane(t.lane == 0),
        shared_ring(is_shared),
        ring(places),
        units(list),
        total(count),
        next(first),
        step(apart),
        at{first, 1} {
    // Kept, not computed again from the kernel's arguments at every load.
    asm volatile("" : "+l"(maps));
    word = next < total ? units[next] : 0U;
  }

  // Units below `end` whose turn it is, `most` at most.
  __device__ __forceinline__ void load_below(int end, int most) {
#pragma unroll 1
    for (int i = 0; i < most && next < end; ++i) {
      load();
    }
  }
  // The same up to the first of the draft tree's: caches are older than the launches before.
  __device__ __forceinline__ void load_older_below(int end) {
#pragma unroll 1
    while (next < min(end, total) && (word & kTreeUnit) == 0U) {
      load();
    }
  }
  __device__ __forceinline__ void load() {
    if (next >= total) {
      return;
    }
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
        copy_tile_async(unit + static_cast<std::uint32_t>(panel * kTileKeys * 128),
                        maps + word % 4U, panel * 64, g, static_cast<int>(word / 4U), full);
      }
    }
    next += step;
    at.advance(ring, step);
    if (next < total) {
      word = units[next];
    }
  }
};

}  // namespace versieve::kernels
