// What the phases of the fused form share. A cluster of blocks works for one KV head: its blocks
// score a share of the key blocks each, agree on the selection through each other's shared memory,
// write the list, attend chunks of it, one warp a chunk, and merge the chunks.
#pragma once

#include "kernels/common/cluster.cuh"
#include "kernels/resa_decode/step.cuh"

namespace versieve::kernels {

inline constexpr int kFusedThreads = 256;
inline constexpr int kFusedWarps = kFusedThreads / 32;
inline constexpr int kTeams = 6;         // warps of a block that attend
inline constexpr int kTeamSlots = 2;     // tiles in a team's ring: keys and values
inline constexpr int kMostCluster = 16;  // blocks of a cluster
inline constexpr int kScoreStages = 8;   // rows that a thread keeps in flight
inline constexpr int kDigitBins = 2048;
inline constexpr int kCoarse = 64;  // sums of 32 bins each

// Extremes of order keys; none: least > most.
struct KeyRange {
  std::uint32_t least = 0xFFFFFFFFU;
  std::uint32_t most = 0;
};

// Dynamic shared memory: the rings of the teams; before, the queues of scores and the order keys,
// then the bins where the queues were.
template <int kHeadDim>
struct FusedMemory {
  static constexpr int kRingBytes = kTeamSlots * 64 * kHeadDim * 2;
  static constexpr int kBytes = kTeams * kRingBytes;
  static constexpr int kQueueBytes = kScoreStages * kFusedThreads * 32;
  static constexpr int kKeyRoom = (kBytes - kQueueBytes) / 4;
  static_assert(2 * kDigitBins * 4 <= kQueueBytes && kQueueBytes < kBytes, "they fit");
};

struct FusedShared {
  KeyRange ranges[kMostCluster];         // pushed by each block of the cluster
  int coarse[2][kMostCluster][kCoarse];  // likewise; passes take turns
  int fine[kMostCluster][32];            // pulled
  KeyRange warp_range[kFusedWarps];
  int above[kFusedWarps], equal[kFusedWarps];  // of the warps' pieces
  float weight[kMaxChunks];                    // of the merge
  float total;
  float part_value[kFusedThreads];
  std::uint64_t barriers[kTeams * kTeamSlots];
};

}  // namespace versieve::kernels
