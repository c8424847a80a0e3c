// How tiles of keys and values flow into a CTA: teams of row tiles that share them, rings of units
// (a tile's keys, or its values) with full and empty barriers, bulk tensor copies. Where the draft
// tree begins, all of its rows come as units of 64: each query finds its path's among them.
#pragma once

#include "kernels/nsa_verify/fused.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/settle.cuh"

namespace versieve::kernels {

// 1 << bits row tiles that share tiles of keys.
struct Team {
  int bits;
  int index;  // among the slot's teams
  int first_tile;
  int tiles;
};
// The team of row tile `tile` where teams of 1 << bits share out the slot's row tiles.
__device__ __forceinline__ Team make_team(int tile, int bits) {
  const int index = tile >> bits;
  return {bits, index, index << bits, 1 << bits};
}

// A team's units in shared memory and their barriers. A unit is full when its copies have landed,
// empty when all warps have read it.
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
      barrier_init(empty(i), warps);
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
  bool compressed;
  int committed;   // rows of the cache
  int tree_boxes;  // units of keys (or of values) that hold all rows of the tree

  __device__ __forceinline__ TileSource(const Queries& t, bool of_compressed)
      : compressed(of_compressed),
        committed(compressed ? t.committed : t.context_len),
        tree_boxes(((compressed ? t.tree_compressed : t.a.nodes) + kTileKeys - 1) / kTileKeys) {}
  // Units of keys of a tail entry: those rows of its slice that are committed, then the tree.
  __device__ __forceinline__ bool reaches_back(int first) const { return first < committed; }
  __device__ __forceinline__ int boxes(int first) const {
    return tree_boxes + (reaches_back(first) ? 1 : 0);
  }
};
// Words of TileList::units.
inline constexpr std::uint32_t kTreeUnit = 2U;
inline constexpr std::uint32_t kListEnd = 0xFFFFFFFFU;
__device__ __forceinline__ std::uint32_t unit_word(int row, bool tree, bool values) {
  return static_cast<std::uint32_t>(row) * 4U + (tree ? kTreeUnit : 0U) + (values ? 1U : 0U);
}

inline constexpr int kUnitsInFlight = 8;  // asked for, and not there

// How far a feeding warp has come with a ring.
struct Fed {
  Cursor to{0, 1};      // the next place; parity of the phase in which what lay there was read
  Cursor landed{0, 0};  // of the unit asked for kUnitsInFlight before
  int units = 0;        // asked for
};

// Units of a ring that went through another one before, which had places of the same memory.
struct UnitsBefore {
  Ring ring;
  int first;  // place of this ring's first one
  int units;

  // Until place `place` of this ring has been read there. The parity of a phase tells no more than
  // whether one is missing: REQUIRES that all units there have been asked for.
  __device__ __forceinline__ void wait(int place) const {
    const int rounds = units / ring.units;
    const int at = first + place;
    const int times = rounds + (at < units - rounds * ring.units ? 1 : 0);
    if (times > 0) {
      barrier_wait(ring.empty(at), (times - 1) & 1);
    }
  }
};

// Asks for the units of a list in their order, each as soon as its place has been read, a few at a
// time so that the first ones come first. One warp runs it. waits: the tree's rows come behind the
// wait for the launches before; caches are older.
template <int kD>
__device__ __forceinline__ void feed_ring(const Queries& t, const TileMaps& all, bool compressed,
                                          const Ring& ring, const std::uint32_t* units, bool waits,
                                          const UnitsBefore& before, Fed& fed) {
  const CUtensorMap* maps = &all.of[compressed ? 1 : 0][0];
  // Kept, not computed again from the kernel's arguments at every load.
  settle(maps);
  const int* const first_row = t.a.first_row[compressed ? 1 : 0];
  const int in_flight = min(kUnitsInFlight, ring.units);
  // One lane reads, for all.
  const auto word_at = [&](int i) {
    return __shfl_sync(0xFFFFFFFFU, t.lane == 0 ? units[i] : 0U, 0);
  };
  std::uint32_t word = word_at(0);
#pragma unroll 1
  for (int i = 0; word != kListEnd; ++i, ++fed.units) {
    if (waits && (word & kTreeUnit) != 0U) {
      wait_for_predecessors();
      waits = false;
    }
    if (fed.units >= in_flight) {
      barrier_wait(ring.full(fed.landed.place), fed.landed.parity);
      fed.landed.advance(ring);
    }
    if (fed.units >= ring.units) {
      barrier_wait(ring.empty(fed.to.place), fed.to.parity);
    } else if (before.units > 0) {
      before.wait(fed.to.place);
    }
    // Before the copy: behind the last one the list may be another.
    const std::uint32_t next = word_at(i + 1);
    if (t.lane == 0) {
      const std::uint32_t full = ring.full(fed.to.place);
      const std::uint32_t unit =
          ring.units_at + static_cast<std::uint32_t>(fed.to.place * Rows<kD>::kUnitBytes);
      barrier_expect(full, Rows<kD>::kUnitBytes);
#pragma unroll
      for (int panel = 0; panel < kD / 64; ++panel) {
        copy_box_3d(unit + static_cast<std::uint32_t>(panel * kTileKeys * 128), maps + word % 4U,
                    panel * 64, t.g,
                    static_cast<int>(word / 4U) + first_row[(word & kTreeUnit) != 0U ? 1 : 0],
                    full);
      }
    }
    fed.to.advance(ring);
    word = next;
  }
}

}  // namespace versieve::kernels
