// How a thread block of the prompt's form is made: warps of 16 rows each (consecutive tokens with
// their query heads) that read the same tiles, and four warps more, whose registers the others have
// and of which one lane has the copy engine fill a ring with tiles, 64 keys and their values each.
#pragma once

#include <cstdint>

#include "kernels/nsa_verify/fused_rows.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "model/launches/fused_cut.h"

namespace versieve::kernels {

// Tokens of a row tile, at most: a block's are the bits of a 64-bit word.
inline constexpr int kPromptTileQueries = 4;

template <int kD>
struct PromptPlan {
  static constexpr int kWarps = kD == 64 ? 16 : 8;  // that work
  static constexpr int kWorkers = kWarps * 32;
  // Whether four warps multiply together (wgmma): the products of 64 rows wherever one of them
  // takes part, and a tile is read once for all. It wins for wide heads (TRIED.md).
  static constexpr bool kByGroup = kD > 64;
  static constexpr int kThreads = kWorkers + 128;
  // A block alone on its SM has 96 a thread, or 168.
  static constexpr int kIdleRegisters = 24;
  static constexpr int kRegisters = kD == 64 ? 112 : 240;
  static constexpr int kQueries = kWarps * kPromptTileQueries;  // of a block, at most
  static constexpr int kUnitBytes = Rows<kD>::kUnitBytes;
  static constexpr int kTileBytes = 2 * kUnitBytes;  // keys, behind them their values
  static constexpr int kTiles = kD == 64 ? 9 : 3;    // of the ring
  static constexpr int kRingBytes = kTiles * kTileBytes;
  // While blocks are chosen the ring is empty, and each warp has a share of it.
  static constexpr int kChoiceWords = kRingBytes / kWarps / 4;
  static constexpr int kKeptFloats = kTileRows * kD;                     // of a warp
  static constexpr int kQueryBytes = kByGroup ? kTileRows * kD * 2 : 0;  // of a warp
  static constexpr int kQueriesAt = kRingBytes + kWarps * kKeptFloats * 4;
  static constexpr int kStatesAt = kQueriesAt + kWarps * kQueryBytes;
  static constexpr int kBarriersAt = kStatesAt + 2 * kWarps * kTileRows * 8;
  static constexpr int kListedAt = kBarriersAt + 2 * kTiles * 8;
  static constexpr int kStartsAt = kListedAt + 8;
  static constexpr int kMasksAt = kStartsAt + 32;
  static_assert(kQueries <= 64 && kFusedSelectedSegments + 1 <= 8);

  static constexpr int shared_bytes(int blocks) {
    return kMasksAt + (blocks + 3) / 4 * 4 * (8 + 2);
  }

  unsigned char* shared;  // shared_bytes(blocks) on 1,024 bytes
  std::uint32_t at;       // its address
  int blocks;             // selection blocks that the call's last token has

  __device__ std::uint32_t tile(int place) const {
    return at + static_cast<std::uint32_t>(place * kTileBytes);
  }
  __device__ std::uint32_t full(int place) const {
    return at + static_cast<std::uint32_t>(kBarriersAt + place * 8);
  }
  __device__ std::uint32_t empty(int place) const {
    return full(place) + static_cast<std::uint32_t>(kTiles * 8);
  }
  // The list of blocks is there, and the ring is nobody's memory any more: a phase an item.
  __device__ std::uint32_t listed() const { return at + static_cast<std::uint32_t>(kListedAt); }
  __device__ unsigned* choice(int warp) const {
    return reinterpret_cast<unsigned*>(shared) + warp * kChoiceWords;
  }
  __device__ float* kept(int warp) const {
    return reinterpret_cast<float*>(shared + kRingBytes) + warp * kKeptFloats;
  }
  __device__ unsigned char* queries() const { return shared + kQueriesAt; }
  // [16] of a warp's rows, two of them: reference and sum of what its totals have come to; while
  // blocks are chosen the first one is maximum and 1 / sum of the compressed branch.
  __device__ float2* states(int warp, int which = 0) const {
    return reinterpret_cast<float2*>(shared + kStatesAt) + (which * kWarps + warp) * kTileRows;
  }
  // Where each segment's blocks begin in the list, and where the last one's end.
  __device__ int* starts() const { return reinterpret_cast<int*>(shared + kStartsAt); }
  // [blocks]: the queries of the thread block that chose it.
  __device__ unsigned long long* masks() const {
    return reinterpret_cast<unsigned long long*>(shared + kMasksAt);
  }
  __device__ std::uint16_t* list() const {
    return reinterpret_cast<std::uint16_t*>(masks() + (blocks + 3) / 4 * 4);
  }
  // By one thread; then publish_barriers() and a barrier of the block.
  __device__ void init() const {
    for (int i = 0; i < kTiles; ++i) {
      barrier_init(full(i), 1);
      barrier_init(empty(i), kWarps);
    }
    barrier_init(listed(), 32);  // all lanes of the warp that makes the list
  }
};

// A place of the ring in turn, and the parity of its phase.
template <int kTiles>
struct RingTurn {
  int place = 0;
  int parity = 0;

  __device__ __forceinline__ void advance() {
    if (++place == kTiles) {
      place = 0;
      parity ^= 1;
    }
  }
};

}  // namespace versieve::kernels
