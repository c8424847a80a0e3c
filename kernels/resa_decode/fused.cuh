// What the phases of the fused form share. A cluster of blocks works for one KV head: its blocks
// score a share of the key blocks each, agree on the selection through each other's shared memory,
// write the list, attend chunks of it, one warp a chunk, and merge the chunks.
#pragma once

#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/resa_decode/fused_launch.cuh"
#include "kernels/resa_decode/step.cuh"

namespace versieve::kernels {

inline constexpr int kFusedThreads = 256;
inline constexpr int kFusedWarps = kFusedThreads / 32;
inline constexpr int kTeams = 4;        // warps of a block that attend
inline constexpr int kTeamSlots = 3;    // tiles in a team's ring
inline constexpr int kScoreStages = 8;  // rows that a thread keeps in flight
inline constexpr int kDigitBits = 9;
inline constexpr int kDigitBins = 1 << kDigitBits;

// Extremes of order keys; none: least > most.
struct KeyExtremes {
  std::uint32_t least = 0xFFFFFFFFU;
  std::uint32_t most = 0;
};

// The bins of a pass: this block's, and those that all blocks of the cluster pushed, 16 bits a bin.
struct DigitMemory {
  int bins[kDigitBins];
  std::uint32_t pushed[2][kMostCluster][kDigitBins / 2];  // passes take turns
};

// Dynamic shared memory: the rings of the teams; before, the queues of scores and the order keys,
// then the bins where the queues were.
template <int kHeadDim>
struct FusedMemory {
  static constexpr int kRingBytes = kTeamSlots * 64 * kHeadDim * 2;
  static constexpr int kBytes = kTeams * kRingBytes;
  static constexpr int kQueueBytes = kScoreStages * kFusedThreads * 32;
  static constexpr int kKeyRoom = (kBytes - kQueueBytes) / 4;
  static_assert(sizeof(DigitMemory) <= kQueueBytes && kQueueBytes < kBytes, "they fit");
};

// A bin, and what was counted in higher bins: by all blocks, and by the blocks before this one.
struct FoundBin {
  int bin = 0;
  int above = 0;
  int above_before = 0;
  int count = 0;
  int count_before = 0;
};

struct FusedShared {
  KeyExtremes ranges[kMostCluster];  // pushed by each block of the cluster
  KeyExtremes warp_range[kFusedWarps];
  int2 warp_count[kFusedWarps];  // of the bins that a warp adds up: all blocks', the blocks' before
  FoundBin found;
  int above[kFusedWarps], equal[kFusedWarps];  // of the warps' pieces
  float weight[kMaxChunks];                    // of the merge
  float total;
  float part_value[kFusedThreads];
  std::uint64_t barriers[kTeams * kTeamSlots];  // of the rings
  std::uint64_t range_pushed, bins_pushed[2];   // what other blocks stored here
};

}  // namespace versieve::kernels
