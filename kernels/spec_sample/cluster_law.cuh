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

// Statistics of both rows from those of the warps' chunks. Ends with a cluster barrier.
// REQUIRES: all blocks of the cluster run.
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

// Where this block's tile lies in the running sum over the row. `sums` of this block's chunks are
// in shared.sum. Ends with a cluster barrier. REQUIRES: as exchange_law.
__device__ inline DrawRange<float> exchange_sums(ClusterLawShared& shared) {
  const int rank = cluster_rank();
  const int size = cluster_size();
  if (threadIdx.x < 32) {
    float inside = 0.0F;
#pragma unroll
    for (int i = 0; i < kMaxTiles; ++i) {
      inside += i < static_cast<int>(blockDim.x) / 32 ? shared.sum[i] : 0.0F;
    }
    if (static_cast<int>(threadIdx.x) < size) {
      in_block(&shared, static_cast<int>(threadIdx.x))->total[rank] = inside;
    }
  }
  cluster_sync();
  DrawRange<float> range;
#pragma unroll
  for (int i = 0; i < kMaxTiles; ++i) {
    range.before = i == rank ? range.total : range.before;
    range.total += i < size ? shared.total[i] : 0.0F;
    range.after = i == rank ? range.total : range.after;
  }
  return range;
}

// Of a tile's range, the part of this warp's chunk.
__device__ inline DrawRange<float> chunk_range(const DrawRange<float>& tile,
                                               const ClusterLawShared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float before = 0.0F;
  for (int i = 0; i < warp; ++i) {
    before += shared.sum[i];
  }
  return {tile.before + before, tile.before + (before + shared.sum[warp]), tile.total};
}

// A draw from the weights in a warp's registers.
template <class T>
__device__ inline int register_draw(const float (&weights)[kLaneElements], int chunk,
                                    const LawCut& cut, float before, float target) {
  return chunk_draw<T, float>(
      [&weights](int, float(&w)[kLaneElements]) {
#pragma unroll
        for (int j = 0; j < kLaneElements; ++j) {
          w[j] = weights[j];
        }
      },
      chunk, cut, before, target);
}

}  // namespace versieve::kernels
