// The ring of linear/stream.cu: weights and x of a block's K tiles, copied by one thread, and their
// products, by its warpgroups.
#pragma once

#include "kernels/common/dependent_launch.cuh"
#include "kernels/linear/stream_plan.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace versieve::kernels {

// Shared addresses of a block.
struct Places {
  std::uint32_t ring, full, empty, received;  // and barriers: of stages, of what others send

  __device__ std::uint32_t stage(int i, int stage_bytes, int stages) const {
    return ring + static_cast<std::uint32_t>(i % stages * stage_bytes);
  }
  __device__ std::uint32_t full_of(int stage) const {
    return full + static_cast<std::uint32_t>(stage * 8);
  }
  __device__ std::uint32_t empty_of(int stage) const {
    return empty + static_cast<std::uint32_t>(stage * 8);
  }
};

// Weights of K tile i into its stage; by one thread.
template <class Plan>
__device__ inline void copy_weights(const StreamParams& s, const Tile& t, const Places& at, int i) {
  const std::uint32_t to = at.stage(i, Plan::kStageBytes, Plan::kStages);
  const std::uint32_t barrier = at.full_of(i % Plan::kStages);
  barrier_expect(barrier, Plan::kStageBytes);
#pragma unroll
  for (int group = 0; group < Plan::kGroups; ++group) {
    copy_box_2d(to + static_cast<std::uint32_t>(group * kGroupBytes), &s.weights,
                (t.first_k + i) * kTileK, t.first_row[group], barrier, kEvictFirst);
  }
}

// x of K tile i into its stage; by one thread.
template <class Plan>
__device__ inline void copy_nodes(const StreamParams& s, const Tile& t, const Places& at, int i) {
  copy_box_2d(at.stage(i, Plan::kStageBytes, Plan::kStages) + Plan::kWeightBytes, &s.nodes,
              (t.first_k + i) * kTileK, t.first_node, at.full_of(i % Plan::kStages), kEvictLast);
}

// The copying thread, after the wait: x of the first ring-full, then both, stage by stage.
template <class Plan>
__device__ inline void copy_tiles(const StreamParams& s, const Tile& t, const Places& at) {
  const int ahead = min(Plan::kStages, t.k_tiles);
  if constexpr (Plan::kNodes > 8) {
#pragma unroll 1
    for (int i = -1; i < ahead; ++i) {  // -1 fetches the instructions
      if (i == 0) {
        wait_for_predecessors();
      }
      const int tile = max(i, 0);
      copy_box_2d_if(i >= 0, at.stage(tile, Plan::kStageBytes, Plan::kStages) + Plan::kWeightBytes,
                     &s.nodes, (t.first_k + tile) * kTileK, t.first_node,
                     at.full_of(tile % Plan::kStages), kEvictLast);
    }
  } else {
#pragma unroll Plan::kTurns
    for (int i = 0; i < ahead; ++i) {
      copy_nodes<Plan>(s, t, at, i);
    }
  }
#pragma unroll Plan::kTurns
  for (int i = ahead; i < t.k_tiles; ++i) {
    const int turn = i / Plan::kStages;
    barrier_wait(at.empty_of(i % Plan::kStages), (turn - 1) & 1);
    copy_weights<Plan>(s, t, at, i);
    copy_nodes<Plan>(s, t, at, i);
    if (Plan::kReleasesLate && i == max(ahead, t.k_tiles - s.release_tiles)) {
      release_successors();
    }
  }
}

// A warp is done with K tile i.
template <class Plan>
__device__ inline void free_stage(const Tile& t, const Places& places, int i) {
  const std::uint32_t barrier = places.empty_of(i % Plan::kStages);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane == t.first_lane) {
    barrier_arrive(barrier);
  }
}

// A warpgroup's products of its 64 rows with all nodes of the tile.
template <class Plan>
__device__ inline void multiply_tiles(const Tile& t, int group, const Places& places,
                                      float (&sum)[Plan::kNodes / 8][4]) {
#pragma unroll Plan::kTurns
  for (int i = 0; i < t.k_tiles; ++i) {
    const std::uint32_t at = places.stage(i, Plan::kStageBytes, Plan::kStages);
    const std::uint64_t a = wgmma_operand(at + static_cast<std::uint32_t>(group * kGroupBytes));
    const std::uint64_t b = wgmma_operand(at + Plan::kWeightBytes);
    barrier_wait(places.full_of(i % Plan::kStages), (i / Plan::kStages) & 1);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kTileK / 16; ++step) {  // 16 elements of K: 2 units of 16 bytes
      wgmma<Plan::kNodes>(sum, a + static_cast<std::uint64_t>(2 * step),
                          b + static_cast<std::uint64_t>(2 * step));
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (i > 0) {
      free_stage<Plan>(t, places, i - 1);
    }
    if (Plan::kEarlySums && !Plan::kOwnRoom && t.slices > 1 &&
        i == max(0, t.k_tiles + 2 - Plan::kStages)) {
      cluster_arrive_relaxed();  // this warp leaves the stages of tiles k_tiles and k_tiles + 1
    }
  }
  wgmma_wait<0>();
}

}  // namespace versieve::kernels
