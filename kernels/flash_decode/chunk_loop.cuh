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
__device__ inline void fetch_tile(Keys& keys, std::uint32_t ring, int first_tile, int item,
                                  int items) {
  if (item < items) {
    constexpr int kWords = kHeadDim / 8;
    constexpr int kThreads = kWarps * 32;
    const int tile = first_tile + item / 2;
    const bool value = item % 2 == 1;
    if (!value) {
      keys.enter(tile);
    }
    const std::uint32_t slot = ring + static_cast<std::uint32_t>(item % kRingSlots<kWarps>) *
                                          RowTile<kHeadDim>::kTileBytes;
// Copies are asynchronous: a few addresses at a time are enough, and cost fewer registers.
#pragma unroll 4
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

// Attends chunks [first, last) of `chunk` keys each; no key from `keys_end` on is looked at. Keys
// are counted in 32 bits, as positions are.
template <int kHeadDim, int kWarps, int kRowTiles, class Keys, class Rows>
__device__ inline void attend_chunks(Keys& keys, const Rows& rows, std::uint32_t ring, int chunk,
                                     int first, int last, int keys_end,
                                     const ChunkPartials& partials) {
  constexpr int kSlots = kRingSlots<kWarps>;
  constexpr int kSlotBytes = RowTile<kHeadDim>::kTileBytes;
  const int chunk_tiles = chunk / kTileKeys;
  const int first_tile = first * chunk_tiles;
  const int end_tile = min(last * chunk_tiles, (keys_end + kTileKeys - 1) / kTileKeys);
  const int items = 2 * (end_tile - first_tile);
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * kRowTiles * kTileRows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  RowTile<kHeadDim> tiles[kRowTiles];
  int visible[kRowTiles][2];
#pragma unroll
  for (int t = 0; t < kRowTiles; ++t) {
    const int base = warp_row + t * kTileRows;
    tiles[t].load_queries([&](int r) { return rows.query(base + r); });
    tiles[t].clear();
    visible[t][0] = static_cast<int>(rows.visible(base + lane / 4));
    visible[t][1] = static_cast<int>(rows.visible(base + lane / 4 + 8));
  }
#pragma unroll
  for (int item = 0; item < kSlots - 1; ++item) {
    fetch_tile<kHeadDim, kWarps>(keys, ring, first_tile, item, items);
  }
  // The slot of an item once it is there for all; the item's predecessor is read by none any more.
  const auto arrived = [&](int item) {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(kSlots - 2) : "memory");
    sync_cta<kWarps>();
    fetch_tile<kHeadDim, kWarps>(keys, ring, first_tile, item + kSlots - 1, items);
    return ring + static_cast<std::uint32_t>(item % kSlots * kSlotBytes);
  };
  int chunk_index = first;
  int chunk_left = chunk_tiles;
  for (int item = 0; item < items; item += 2) {
    const int begin = (first_tile + item / 2) * kTileKeys;
    const std::uint32_t key_slot = arrived(item);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      tiles[t].score(key_slot, max(0, min(kTileKeys, visible[t][0] - begin)),
                     max(0, min(kTileKeys, visible[t][1] - begin)));
    }
    const std::uint32_t value_slot = arrived(item + 1);
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
      tiles[t].add_values(value_slot);
    }
    if (--chunk_left == 0 || item + 2 == items) {
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        const int base = warp_row + t * kTileRows;
        tiles[t].store(partials, chunk_index, [&](int r) {
          return chunk_index * chunk < rows.visible(base + r) ? rows.index(base + r) : -1;
        });
        tiles[t].clear();
      }
      ++chunk_index;
      chunk_left = chunk_tiles;
    }
  }
  asm volatile("cp.async.wait_group 0;\n" ::: "memory");
  sync_cta<kWarps>();
}

}  // namespace versieve::kernels
