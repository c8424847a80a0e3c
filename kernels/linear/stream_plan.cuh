// How a block of linear/stream.cu works: tiles, stages, shared memory. Rows and K slices are cut by
// model/launches/linear.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/common/tensor_map.h"
#include "kernels/ops.h"
#include "model/launches/linear.h"

namespace versieve::kernels {

inline constexpr int kGroupRows = kLinearGroupRows;  // weight rows of a warpgroup
inline constexpr int kTileK = kLinearTileK;          // 128 bytes of a row
inline constexpr int kRowBytes = kTileK * 2;
inline constexpr int kGroupBytes = kGroupRows * kRowBytes;
inline constexpr int kMaxSlices = kLinearMostSlices;
inline constexpr int kAlignment = 1024;  // of a swizzled tile
// Of an SM's 228 KiB, beside 1 KiB for the system and the barriers: two blocks share an SM, of one
// launch or of two that follow each other. A block that asks for kAloneBytes has none of its own
// launch beside it.
inline constexpr int kBlockBytes = 111 * 1024;
inline constexpr int kAloneBytes = 114 * 1024;
static_assert(2 * (kAloneBytes + 1024) > 228 * 1024 &&
              kAloneBytes + kBlockBytes + 2 * 1024 < 228 * 1024);

// A block of kGroups warpgroups against kNodes nodes.
template <int kBlockGroups, int kTileNodes, int kRingStages>
struct StreamPlan {
  static constexpr int kGroups = kBlockGroups;
  static constexpr int kNodes = kTileNodes;
  static constexpr int kStages = kRingStages;
  static constexpr int kMultiplyWarps = 4 * kGroups;
  static constexpr int kMultiplyThreads = kMultiplyWarps * 32;
  // And a warp for the copies; of many nodes one more, which fetches what the end needs.
  static constexpr int kThreads = kMultiplyThreads + (kNodes > 8 ? 64 : 32);
  static constexpr int kWeightBytes = kGroups * kGroupBytes;
  static constexpr int kStageBytes = kWeightBytes + kNodes * kRowBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  // Partial sums of some nodes that a block makes for all blocks of its cluster, or is sent by
  // them. Few nodes: [slices, nodes, groups, share + kPad] f32 with share = 64 / slices rows of
  // each group; many: stream_fragments.cuh.
  static constexpr int kRoundNodes = std::min(kNodes, 64);
  static constexpr int kPad = kNodes > 8 ? 0 : 4;  // keeps a warp's stores in different banks
  static constexpr int kPartialBytes = kRoundNodes * kGroups * (kGroupRows + kPad * kMaxSlices) * 4;
  // When a block lets the next launch in: with few nodes at its start, else some K tiles before its
  // last, or, where the ring holds more than that, as soon as it copies a tile again. Measured,
  // H200: late costs 70 us of 800 a step at N = 1 and gains 16 of 870 at 16, 40 of 1,088 at 64; 2
  // instead of 4 tiles cost 8 of 765 at 16 and gain 8 of 900 at 64, 25 of 1,235 at 128. The joint
  // projection (no residual, no halves, an SM a block) releases as soon as it copies again:
  // attention behind it has tables to fill; 1,388 instead of 1,403 us a verification of 64.
  static constexpr bool kReleasesLate = kNodes > 8;
  static constexpr int kReleaseTiles = kNodes < 64 ? 4 : 2;
  // Loops over K tiles: the code of many nodes is kept short, it is fetched at each launch.
  static constexpr int kTurns = kNodes > 8 ? 1 : 4;
  // With few nodes what is received has its own room: a block may send before others are done.
  static constexpr bool kOwnRoom = kNodes <= 16;
  static constexpr int kReceivedAt = kOwnRoom ? kRingBytes : kPartialBytes;
  // Many nodes, one group: sums go to stages that the last tiles leave free, and others may send
  // before this block's products are made.
  static constexpr bool kEarlySums = kNodes > 8 && kGroups == 1;
  // Else, in the ring, which is free by then: where each warp turns its outputs.
  static constexpr int kTurnedAt = kOwnRoom ? kPartialBytes : 2 * kPartialBytes;
  // Behind all that: residuals of so many outputs, on their way while products run.
  static constexpr int kResidualAt = std::max(kRingBytes, kReceivedAt + kPartialBytes);
  static constexpr int kResidualElements = kNodes > 8 && kGroups == 1
                                               ? (kNodes == 64 ? 64 : 32) * kNodes
                                               : 0;
  static constexpr int kSharedBytes = kAlignment + kResidualAt + kResidualElements * 2;
  static_assert(
      kNodes == 8 || (kEarlySums ? kPartialBytes <= kStageBytes && kStages > 3
                                 : kTurnedAt + kMultiplyWarps * 512 <= kRingBytes),
      "sums of a round fit a stage; else outputs, 512 bytes a warp, the ring behind them");
  static_assert(kPartialBytes <= kRingBytes && kSharedBytes <= kBlockBytes, "two blocks on an SM");
};

struct StreamParams {
  CUtensorMap weights;  // boxes of 64 rows
  CUtensorMap nodes;    // boxes of kNodes rows
  LinearParams<Bf16> p;
  // K tiles before its last that a block lets the next launch in; fewer if its ring holds more.
  int release_tiles = 0;
};

// What a block works on.
struct Tile {
  int slice, slices;
  int slice_bits;  // slices = 2^slice_bits: whoever divides shifts
  int first_node, node_count;
  int first_row[2];  // weight row of each group
  int first_k, k_tiles;
  // Of a warp: 0. As a literal in the loop of products it makes nvcc 13.0 keep the addresses of all
  // stages: 104 registers for 8 nodes and two groups, and no second block on the SM.
  int first_lane;

  // Each block of the cluster finishes 2^share_bits rows of every group.
  __device__ int share_bits() const { return 6 - slice_bits; }
  __device__ int row_of_share(int row) const { return row & ((1 << share_bits()) - 1); }
};
static_assert(kGroupRows == 1 << 6, "share_bits");

// K tiles of a slice.
__device__ inline int slice_tiles(const LinearParams<Bf16>& p, const Tile& t, int slice) {
  const int k_tiles = (static_cast<int>(p.k) + kTileK - 1) / kTileK;
  return ((k_tiles * (slice + 1)) >> t.slice_bits) - ((k_tiles * slice) >> t.slice_bits);
}

template <class Plan>
__device__ inline Tile own_tile(const LinearParams<Bf16>& p) {
  const int k_tiles = (static_cast<int>(p.k) + kTileK - 1) / kTileK;
  const int row_step = p.swiglu ? kGroupRows : Plan::kGroups * kGroupRows;
  Tile t;
  t.slice = static_cast<int>(blockIdx.x);
  t.slices = static_cast<int>(gridDim.x);
  t.first_lane = 0;
  t.slice_bits = __ffs(t.slices) - 1;
  t.first_node = static_cast<int>(blockIdx.y) * Plan::kNodes;
  t.node_count = min(Plan::kNodes, static_cast<int>(p.n) - t.first_node);
  t.first_row[0] = static_cast<int>(blockIdx.z) * row_step;
  t.first_row[1] = t.first_row[0] + (p.swiglu ? static_cast<int>(p.m) : kGroupRows);
  t.first_k = (k_tiles * t.slice) >> t.slice_bits;
  t.k_tiles = slice_tiles(p, t, t.slice);
  return t;
}

}  // namespace versieve::kernels
