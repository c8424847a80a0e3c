// The loop of one CTA over its share of the chunks: keys and values stream through a ring of tiles
// in shared memory while the tiles before them are multiplied.
//
// Every warp holds kRowTiles tiles of 16 rows and sees every key of the CTA. A `Keys` type gives
//   enter(tile): called by all threads before rows of a tile are asked for, tiles ascending;
//   row(tile, key, value): where the row of a key of that tile starts, or null past the end;
// a `Rows` type gives query(r), visible(r) (keys that row sees; 0: none) and index(r) (or -1) for
// the CTA's rows r.
#pragma once

#include <cstdint>

#include "kernels/flash_decode/row_tile.cuh"

namespace versieve::kernels {

// Tiles in flight: a lone warp keeps two behind the one it multiplies.
template <int kWarps>
inline constexpr int kRingSlots = kWarps == 1 ? 3 : 4;

template <int kHeadDim, int kWarps>
inline constexpr int kRingBytes = kRingSlots<kWarps>* RowTile<kHeadDim>::kTileBytes;

template <int kWarps>
__device__ inline void sync_cta() {
  if constexpr (kWarps == 1) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// Copies keys (item even) or values (odd) of tile item / 2 into their slot.
template <int kHeadDim, int kWarps, class Keys>
__device__ inline void fetch_tile(Keys& keys, std::uint32_t ring, std::int64_t first_tile,
                                  std::int64_t item, std::int64_t items) {
  if (item < items) {
    constexpr int kWords = kHeadDim / 8;
    constexpr int kThreads = kWarps * 32;
    const std::int64_t tile = first_tile + item / 2;
    const bool value = item % 2 == 1;
    if (!value) {
      keys.enter(tile);
    }
    const std::uint32_t slot = ring + static_cast<std::uint32_t>(item % kRingSlots<kWarps>) *
                                          RowTile<kHeadDim>::kTileBytes;
#pragma unroll
    for (int i = 0; i < kTileKeys * kWords / kThreads; ++i) {
      const int word = i * kThreads + static_cast<int>(threadIdx.x);
      const int key = word / kWords;
      const Bf16* row = keys.row(tile, key, value);
      const int column = word % kWords;
      copy_chunk_async(swizzled_chunk<kHeadDim * 2>(slot, key, column),
                       row == nullptr ? keys.any() : row + column * 8, row != nullptr);
    }
  }
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}

// Attends chunks [first, last) of `chunk` keys each; no key from `keys_end` on is looked at.
template <int kHeadDim, int kWarps, int kRowTiles, class Keys, class Rows>
__device__ inline void attend_chunks(Keys& keys, const Rows& rows, std::uint32_t ring,
                                     std::int64_t chunk, std::int64_t first, std::int64_t last,
                                     std::int64_t keys_end, const ChunkPartials& partials) {
  constexpr int kSlots = kRingSlots<kWarps>;
  const std::int64_t first_tile = first * chunk / kTileKeys;
  const std::int64_t end = min(last * chunk, keys_end);
  const std::int64_t items = 2 * ((end + kTileKeys - 1) / kTileKeys - first_tile);
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kRowTiles * kTileRows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  RowTile<kHeadDim> tiles[kRowTiles];
  std::int64_t visible[kRowTiles][2];
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
    const int base = warp_row + t * kTileRows;
    tiles[t].load_queries([&](int r) { return rows.query(base + r); });
    tiles[t].clear();
    visible[t][0] = rows.visible(base + lane / 4);
    visible[t][1] = rows.visible(base + lane / 4 + 8);
  }
#pragma unroll
  for (int item = 0; item < kSlots - 1; ++item) {
    fetch_tile<kHeadDim, kWarps>(keys, ring, first_tile, item, items);
  }
  for (std::int64_t item = 0; item < items; ++item) {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(kSlots - 2) : "memory");
    sync_cta<kWarps>();  // the item is there for all, and the slot before it is read by none
    fetch_tile<kHeadDim, kWarps>(keys, ring, first_tile, item + kSlots - 1, items);
    const std::uint32_t slot =
        ring + static_cast<std::uint32_t>(item % kSlots) * RowTile<kHeadDim>::kTileBytes;
    const std::int64_t begin = (first_tile + item / 2) * kTileKeys;
    if (item % 2 == 0) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        const std::int64_t most = kTileKeys;
        tiles[t].score(slot,
                       static_cast<int>(max(std::int64_t{0}, min(most, visible[t][0] - begin))),
                       static_cast<int>(max(std::int64_t{0}, min(most, visible[t][1] - begin))));
      }
      continue;
    }
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      tiles[t].add_values(slot);
    }
    const std::int64_t next = begin + kTileKeys;
    if (next % chunk == 0 || item + 1 == items) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        const int base = warp_row + t * kTileRows;
        tiles[t].store(partials, begin / chunk, [&](int r) {
          return begin / chunk * chunk < rows.visible(base + r) ? rows.index(base + r) : -1;
        });
        tiles[t].clear();
      }
    }
  }
  asm volatile("cp.async.wait_group 0;\n" ::: "memory");
  sync_cta<kWarps>();
}

}  // namespace versieve::kernels
