// Laws and draws of a row, or of a pair of rows side by side, by a cluster of blocks: a tile of the
// vocabulary a block, a chunk of 512 elements a warp, in its registers. Two exchanges between the
// blocks, each ending with a cluster barrier, after which no block touches another's memory. Bits
// are those of chunk_law.cuh.
#pragma once

#include "kernels/common/cluster.cuh"
#include "kernels/spec_sample/chunk_law.cuh"

namespace versieve::kernels {

inline constexpr int kClusterLawThreads = kMaxTiles * 32;

// Blocks of a row's cluster: 1, 2, 4, 8 or 16.
inline unsigned cluster_blocks(const LawCut& cut) {
  unsigned blocks = 1;
  while (blocks < static_cast<unsigned>(cut.tiles)) {
    blocks *= 2;
  }
  return blocks;
}

struct ClusterLawShared {
  LawStat chunk[2][kMaxTiles];  // of this block's tile: target, draft
  LawStat tile[2][kMaxTiles];   // of the row; every block writes its own into all blocks
  float sum[kMaxTiles];         // of this block's chunks
  float total[kMaxTiles];       // of the row's tiles, likewise written by all
};

struct RowPair {
  LawStat target, draft;
};

// Statistics of 16 lanes' rows, the lower lanes' and the upper lanes', on all lanes.
__device__ inline RowPair row_pair(const LawStat& member, const LawScale& scale) {
  const LawStat whole = combine16(member, scale);
  return {{__shfl_sync(0xFFFFFFFFU, whole.largest, 0), __shfl_sync(0xFFFFFFFFU, whole.sum, 0)},
          {__shfl_sync(0xFFFFFFFFU, whole.largest, 16), __shfl_sync(0xFFFFFFFFU, whole.sum, 16)}};
}

// Statistics of both rows from those of the warps' chunks. Waits for the
// arrival that the caller made when it began, ends with a cluster barrier.
__device__ inline RowPair exchange_law(const LawStat& target, const LawStat& draft,
                                       const LawScale& scale, ClusterLawShared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = lane / 16;  // lower lanes take the target, upper ones the draft
  const int member = lane % 16;
  if (lane == 0) {
    shared.chunk[0][warp] = target;
    shared.chunk[1][warp] = draft;
  }
  __syncthreads();
  cluster_wait();  // all blocks run
  if (warp == 0) {
    const bool any = member < static_cast<int>(blockDim.x) / 32;
    const LawStat tile = combine16(any ? shared.chunk[row][member] : empty_stat(), scale);
    if (member < cluster_size()) {
      in_block(&shared, member)->tile[row][cluster_rank()] = tile;
    }
  }
  cluster_sync();
  return row_pair(member < cluster_size() ? shared.tile[row][member] : empty_stat(), scale);
}

// Where this warp's chunk, of that sum, lies in the running sum. Ends with a cluster barrier.
__device__ inline DrawRange<float> exchange_sums(float sum, ClusterLawShared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane == 0) {
    shared.sum[warp] = sum;
  }
  __syncthreads();
  float inside = 0.0F, inside_before = 0.0F, inside_after = 0.0F;
#pragma unroll
  for (int i = 0; i < kMaxTiles; ++i) {
    const float other = i < static_cast<int>(blockDim.x) / 32 ? shared.sum[i] : 0.0F;
    inside_before = i == warp ? inside : inside_before;
    inside += other;
    inside_after = i == warp ? inside : inside_after;
  }
  if (warp == 0 && lane < cluster_size()) {
    in_block(&shared, lane)->total[cluster_rank()] = inside;
  }
  cluster_sync();
  float total = 0.0F, tile_before = 0.0F;
#pragma unroll
  for (int i = 0; i < kMaxTiles; ++i) {
    tile_before = i == cluster_rank() ? total : tile_before;
    total += i < cluster_size() ? shared.total[i] : 0.0F;
  }
  return {tile_before + inside_before, tile_before + inside_after, total};
}

}  // namespace versieve::kernels
