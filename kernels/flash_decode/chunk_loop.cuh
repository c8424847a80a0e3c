// The loop of a team of warps over its share of a row block's chunks: tiles of keys and values
// stream through a ring in shared memory that the copy engine fills, while the tiles before them
// are multiplied. Rows of a tile that are not in the cache are put in by hand; such tiles come
// last.
//
// Every warp holds kRowTiles tiles of 16 rows and sees every key of the team. A team is one warp or
// the whole CTA. A `Keys` type gives
//   cached_rows(tile): so many rows at the tile's start come from the cache;
//   copied_bytes(tile), copy(tile, value, slot, barrier): what the lanes of one warp ask the copy
//     engine for, tiles ascending, keys before values; it may bring more than the cached rows;
//   row(tile, key, value): where another row starts, or null for zeros; after look_up_rows(tile).
// A `Rows` type gives query(r), visible(r) (keys that row sees; 0: none) and, of a row that sees
// `keys`, ends(keys, unit, last) and at(r, keys, unit): whether a chunk of the row ends with that
// unit of the span, and its place or -1. Rows with a `capture` also give captured_head(r)
// (capture.cuh).
#pragma once

#include <cstdint>

#include "kernels/flash_decode/row_tile.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::kernels {

template <int kHeadDim, int kWarps, int kSlots>
struct TileRing {
  static constexpr int kSlotBytes = kHeadDim / 64 * kPanelBytes;
  static constexpr int kBytes = kSlots * kSlotBytes;
  // A lone warp knows what it has read: nobody tells it that a slot is empty.
  static constexpr int kBarriers = kWarps == 1 ? kSlots : 2 * kSlots;
  // Items asked for ahead of the one that is read.
  static constexpr int kAhead = kWarps == 1 ? kSlots : kSlots - 1;

  std::uint32_t slots;     // shared memory, kBytes on 1,024 bytes
  std::uint32_t barriers;  // kBarriers of 8 bytes

  __device__ std::uint32_t slot(int item) const {
    return slots + static_cast<std::uint32_t>(item % kSlots * kSlotBytes);
  }
  __device__ std::uint32_t full(int item) const {
    return barriers + static_cast<std::uint32_t>(item % kSlots * 8);
  }
  __device__ std::uint32_t empty(int item) const {
    return barriers + static_cast<std::uint32_t>((kSlots + item % kSlots) * 8);
  }
  __device__ static int parity(int item) { return item / kSlots & 1; }
  // By one thread; then publish_barriers() and a barrier of the team.
  __device__ void init() const {
    for (int slot = 0; slot < kBarriers; ++slot) {
      barrier_init(barriers + static_cast<std::uint32_t>(slot * 8), slot < kSlots ? 1 : kWarps);
    }
  }
};

// Keys are counted in 32 bits, as positions are.
struct KeySpan {
  int unit = kTileKeys;     // keys
  int first = 0, last = 0;  // units
  int keys_end = 0;         // no key from here on is looked at
};

template <int kWarps>
__device__ inline void sync_team() {
  if constexpr (kWarps == 1) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

template <int kHeadDim, int kWarps, int kRowTiles, int kSlots, class Keys, class Rows>
class ChunkLoop {
 public:
  using Ring = TileRing<kHeadDim, kWarps, kSlots>;
  using Tiles = RowTiles<kHeadDim, kRowTiles>;

  __device__ ChunkLoop(Keys& keys, const Rows& rows, const Ring& ring,
                       const ChunkPartials& partials)
      : keys_(keys),
        rows_(rows),
        ring_(ring),
        partials_(partials),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(kWarps == 1 ? 0 : static_cast<int>(threadIdx.x) / 32) {}

  // Once a ring.
  __device__ void run(const KeySpan& span) {
    const int unit_tiles = span.unit / kTileKeys;
    first_tile_ = span.first * unit_tiles;
    const int end = min(span.last * unit_tiles, (span.keys_end + kTileKeys - 1) / kTileKeys);
    items_ = 2 * (end - first_tile_);
    for (int item = 0; item < Ring::kAhead; ++item) {
      fetch(item);
    }
    load_rows();
    int unit = span.first;
    int unit_end = first_tile_ + unit_tiles;
    for (int tile = first_tile_; tile < end; ++tile) {
      const int item = 2 * (tile - first_tile_);
      await(tile, item);
      score(tile, ring_.slot(item));
      release(item);
      await(tile, item + 1);
      tiles_.add_values(ring_.slot(item + 1));
      release(item + 1);
      if (tile + 1 == unit_end || tile + 1 == end) {
        end_unit(unit, tile + 1 == end);
        ++unit;
        unit_end += unit_tiles;
      }
    }
  }

 private:
  __device__ void load_rows() {
    const int base = warp_ * kRowTiles * kTileRows;
    tiles_.start([&](int r) { return rows_.query(base + r); });
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        visible_[t][half] = rows_.visible(row_of(t, half));
      }
    }
  }
  // This lane's row of that tile and half.
  __device__ int row_of(int t, int half) const {
    return (warp_ * kRowTiles + t) * kTileRows + lane_ / 4 + 8 * half;
  }

  // Keys (item even) or values (odd) of tile item / 2, once their slot is read by none any more.
  __device__ void fetch(int item) {
    const int tile = first_tile_ + item / 2;
    if (warp_ != 0 || item >= items_ || keys_.cached_rows(tile) == 0) {
      return;
    }
    if (kWarps > 1 && item >= kSlots) {
      barrier_wait(ring_.empty(item), Ring::parity(item - kSlots));
    }
    if (lane_ == 0) {
      barrier_expect(ring_.full(item), keys_.copied_bytes(tile));
    }
    __syncwarp();
    keys_.copy(tile, item % 2 == 1, ring_.slot(item), ring_.full(item));
  }
  // This warp has read the item.
  __device__ void release(int item) {
    __syncwarp();
    if (kWarps > 1 && lane_ == 0) {
      barrier_arrive(ring_.empty(item));
    }
    fetch(item + Ring::kAhead);
  }
  // Until the item is in its slot.
  __device__ void await(int tile, int item) {
    const int cached = keys_.cached_rows(tile);
    if (cached > 0) {
      barrier_wait(ring_.full(item), Ring::parity(item));
    }
    if (cached < kTileKeys) {
      if (item % 2 == 0) {
        keys_.look_up_rows(tile);
      }
      put_rows(tile, item % 2 == 1, ring_.slot(item), cached);
    }
  }
  // The tile's rows from `first` on. Nothing is asked for into this slot again.
  __device__ void put_rows(int tile, bool value, std::uint32_t slot, int first) {
    constexpr int kWords = kHeadDim / 8;
    sync_team<kWarps>();
    for (int i = first * kWords + warp_ * 32 + lane_; i < kTileKeys * kWords; i += kWarps * 32) {
      const Bf16* row = keys_.row(tile, i / kWords, value);
      store_16(Tiles::chunk_at(slot, i / kWords, i % kWords),
               row == nullptr ? uint4{} : reinterpret_cast<const uint4*>(row)[i % kWords]);
    }
    sync_team<kWarps>();
  }

  __device__ void score(int tile, std::uint32_t slot) {
    int visible[kRowTiles][2];
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        visible[t][half] = max(0, min(kTileKeys, visible_[t][half] - tile * kTileKeys));
      }
    }
    tiles_.score(slot, visible);
    if constexpr (requires { rows_.capture; }) {
      keep_weights(tile);
    }
  }
  __device__ void keep_weights(int tile) {
    const auto& capture = rows_.capture;
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int head = rows_.captured_head(row_of(t, half));
        if (head >= 0) {
          const std::int64_t at = head * capture.tiles + tile;
          tiles_.keep_weights(t, half, capture.weight + at * kTileKeys, capture.top + at);
        }
      }
    }
  }
  __device__ void end_unit(int unit, bool last) {
#pragma unroll
    for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = row_of(t, half);
        const int keys = visible_[t][half];
        tiles_.end_chunk(partials_, t, half, rows_.ends(keys, unit, last), rows_.at(r, keys, unit));
      }
    }
  }

  Keys& keys_;
  const Rows& rows_;
  Ring ring_;
  const ChunkPartials& partials_;
  int lane_, warp_;
  int first_tile_ = 0;
  int items_ = 0;
  Tiles tiles_;
  int visible_[kRowTiles][2];
};

}  // namespace versieve::kernels
