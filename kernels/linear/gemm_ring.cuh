// The ring of linear/gemm.cu: weights and x of K tile after K tile, tile of y after tile, copied by
// one thread of a block, and a warpgroup's products.
#pragma once

#include "kernels/linear/gemm_plan.cuh"
#include "kernels/ptx/grid.cuh"
#include "kernels/ptx/multicast.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace versieve::kernels {

inline constexpr unsigned kBothBlocks = 3;

// The weights of a K tile into their stage: all of the tile's rows, or, shared, half of them into
// both blocks.
template <class Plan>
__device__ inline void copy_gemm_weights(const GemmParams& s, const Plan& plan, const GemmTile& t,
                                         int k, int rank, int stage) {
  const std::uint32_t to = plan.stage(stage);
  const std::uint32_t barrier = plan.full(stage);
  if (s.sharing != GemmSharing::kWeights) {
    if (s.p.swiglu) {
      copy_box_4d(to, &s.weights, k, 0, 0, t.first_row / 8, barrier, s.keep_weights);
    } else {
      copy_box_2d(to, &s.weights, k, t.first_row, barrier, s.keep_weights);
    }
    return;
  }
  const int half = rank * kGemmRows / 2;
  const std::uint32_t there = to + static_cast<std::uint32_t>(half * kGemmRowBytes);
  if (s.p.swiglu) {
    copy_box_4d_to(kBothBlocks, there, &s.weights, k, 0, 0, (t.first_row + half / 2) / 8, barrier,
                   s.keep_weights);
  } else {
    copy_box_2d_to(kBothBlocks, there, &s.weights, k, t.first_row + half, barrier, s.keep_weights);
  }
}
template <class Plan>
__device__ inline void copy_gemm_nodes(const GemmParams& s, const Plan& plan, const GemmTile& t,
                                       int k, int rank, int stage) {
  const std::uint32_t to = plan.stage(stage) + Plan::kWeightBytes;
  const std::uint32_t barrier = plan.full(stage);
  const int half = rank * Plan::kNodes / 2;
  if (s.sharing == GemmSharing::kNodes) {
    copy_box_2d_to(kBothBlocks, to + static_cast<std::uint32_t>(half * kGemmRowBytes), &s.nodes, k,
                   t.first_node + half, barrier, s.keep_nodes);
  } else {
    copy_box_2d(to, &s.nodes, k, t.first_node, barrier, s.keep_nodes);
  }
}

// The units that a block goes through, and the K tiles of each.
struct GemmSpan {
  int first_unit, unit_step;
  int first_k_tile, k_tiles;
};

// The copying thread: weights of the first ring-full before the launches before have ended.
template <class Plan>
__device__ inline void copy_gemm(const GemmParams& s, const Plan& plan, int rank,
                                 const GemmSpan& span) {
  const int ahead = min(Plan::kStages, span.k_tiles);
  const GemmTile first = tile_of<Plan>(s, span.first_unit, rank);
  const auto k_of = [&](int i) { return (span.first_k_tile + i) * kGemmTileK; };
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) {
    barrier_expect(plan.full(i), Plan::kStageBytes);
    copy_gemm_weights(s, plan, first, k_of(i), rank, i);
  }
  wait_for_predecessors();
#pragma unroll 1
  for (int i = 0; i < ahead; ++i) {
    copy_gemm_nodes(s, plan, first, k_of(i), rank, i);
  }
  RingPlace<Plan> place{.stage = ahead % Plan::kStages, .parity = ahead == Plan::kStages ? 1 : 0};
  int begun = ahead;
#pragma unroll 1
  for (int unit = span.first_unit; unit < unit_count(s); unit += span.unit_step) {
    const GemmTile t = tile_of<Plan>(s, unit, rank);
#pragma unroll 1
    for (int i = begun; i < span.k_tiles; ++i) {
      barrier_wait(plan.empty(place.stage), place.parity ^ 1);
      barrier_expect(plan.full(place.stage), Plan::kStageBytes);
      copy_gemm_weights(s, plan, t, k_of(i), rank, place.stage);
      copy_gemm_nodes(s, plan, t, k_of(i), rank, place.stage);
      place.advance();
    }
    begun = 0;
  }
}

// A warpgroup's 64 rows of a K tile times all its nodes, on their way behind the return.
template <class Plan>
__device__ inline void begin_products(const Plan& plan, int group, const RingPlace<Plan>& place,
                                      bool adds, float (&sum)[Plan::kNodes / 8][4]) {
  const std::uint32_t at = plan.stage(place.stage);
  const std::uint64_t a = wgmma_operand(at + static_cast<std::uint32_t>(group * kGemmGroupBytes));
  const std::uint64_t b = wgmma_operand(at + Plan::kWeightBytes);
  barrier_wait(plan.full(place.stage), place.parity);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kGemmTileK / 16; ++step) {  // 16 elements of K: 2 units of 16 bytes
    wgmma<Plan::kNodes>(sum, a + static_cast<std::uint64_t>(2 * step),
                        b + static_cast<std::uint64_t>(2 * step), step > 0 || adds);
  }
  wgmma_commit();
}

// A warp no longer reads a stage, which kReaders blocks of the cluster fill for each other.
template <int kReaders, class Plan>
__device__ inline void free_gemm_stage(const Plan& plan, int stage) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane < kReaders) {
    if constexpr (kReaders == 1) {
      barrier_arrive(plan.empty(stage));
    } else {
      barrier_arrive_in(address_in_block(plan.empty(stage), lane));
    }
  }
}

}  // namespace versieve::kernels
