// How tiles of keys and values flow into a CTA: teams of row tiles that share them, rings of units
// (a tile's keys, or its values) with full and empty barriers, bulk tensor copies for whole tiles
// and copies of single rows where the draft tree begins.
#pragma once

#include "kernels/common/tile_copy.cuh"
#include "kernels/nsa_verify/fused.cuh"

namespace versieve::kernels {

__device__ inline void named_barrier(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// Row tiles that share tiles of keys and wait for each other only. The first warp loads them; tiles
// of the draft tree are loaded by the warp whose queries they are for.
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

// Where the rows of a tail tile come from.
struct GatherSource {
  const Bf16* cache;          // keys or values, of the KV head
  const Bf16* tree;           // the same of the draft tree
  const std::int16_t* table;  // rows of `tree` by the tile's query and distance to shared_rows
  int pitch;                  // of the table
  int shared_rows;            // rows below lie in the cache
  int first_query;            // of the team
};

// One warp copies the rows of a tail tile that somebody sees, completing on `full`. The others keep
// what lies there: finite values (the ring starts as zeros), which are weighed with 0.
template <int kD>
__device__ __noinline__ void load_gathered(const FusedArguments& a, GatherSource from, Entry entry,
                                           std::uint32_t unit, std::uint32_t full) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row_bytes = a.head_dim * 2;
  if (lane == 0) {
    barrier_expect(full, __popcll(static_cast<unsigned long long>(entry.bits)) * row_bytes);
  }
  __syncwarp();
#pragma unroll 1
  for (int row = lane; row < kTileKeys; row += 32) {
    if ((entry.bits >> row & 1) == 0) {
      continue;
    }
    const int at = entry.first + row % kSliceKeys;
    const int query = from.first_query + entry.tail + row / kSliceKeys;
    const bool shared = at < from.shared_rows;
    const int index = shared ? at : from.table[query * from.pitch + at - from.shared_rows];
    const Bf16* const source = (shared ? from.cache : from.tree) +
                               static_cast<std::int64_t>(index) * a.kv_heads * a.head_dim;
#pragma unroll
    for (int panel = 0; panel < kD / 64; ++panel) {
      if (panel * 128 < row_bytes) {
        copy_row_async(unit_chunk(unit, row, panel * 8, kPlain), source + panel * 64,
                       min(row_bytes - panel * 128, 128), full);
      }
    }
  }
}

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

// Fills a team's ring with the units of its list in their order.
template <int kD>
struct Loader {
  const Queries& t;
  const Team& team;
  const Ring& ring;
  const Entry* entries;
  const CUtensorMap* maps[2];  // of keys and values
  bool compressed;
  int total;  // units
  int next;   // unit loaded next
  Cursor at;  // its place

  // One unit, if any is left: a shared tile's by the first warp, a tail's by the warp whose queries
  // it is for and that alone reads it.
  __device__ __forceinline__ void load() {
    if (next >= total) {
      return;
    }
    const Entry* const entry = entries + next / 2;
    const int tail = entry->tail;
    const int loader = tail < 0 ? 0 : tail >> (4 - t.a.head_bits);
    if (loader == t.tile - team.first_tile) {
      const std::uint32_t full = ring.full(at.place);
      if (team.tiles > 1 && next >= ring.units) {
        barrier_wait(full + 8U, at.parity);
      }
      const bool values = (next & 1) != 0;
      const std::uint32_t unit =
          ring.units_at + static_cast<std::uint32_t>(at.place * Rows<kD>::kUnitBytes);
      if (tail >= 0) {
        gather(*entry, values, unit, full);
      } else if (t.lane == 0) {
        barrier_expect(full, Rows<kD>::kUnitBytes);
#pragma unroll
        for (int panel = 0; panel < kD / 64; ++panel) {
          copy_tile_async(unit + static_cast<std::uint32_t>(panel * kTileKeys * 128),
                          values ? maps[1] : maps[0], panel * 64, t.g, entry->first, full);
        }
      }
    }
    ++next;
    at.advance(ring);
  }

 private:
  __device__ __forceinline__ void gather(const Entry& entry, bool values, std::uint32_t unit,
                                         std::uint32_t full) {
    const FusedArguments& a = t.a;
    const int head = t.g * a.head_dim;
    const Bf16* const cache = values ? (compressed ? a.v_cmp : a.v) : (compressed ? a.k_cmp : a.k);
    const Bf16* const tree =
        values ? (compressed ? a.v_cmp_tree : a.v_tree) : (compressed ? a.k_cmp_tree : a.k_tree);
    load_gathered<kD>(a,
                      {cache + head, tree + head, compressed ? t.path_row : t.ancestor,
                       compressed ? a.plan.path_compressed : a.plan.depth_capacity,
                       compressed ? t.committed : t.context_len, team.first_tile * t.per_tile},
                      entry, unit, full);
  }
};

}  // namespace versieve::kernels
