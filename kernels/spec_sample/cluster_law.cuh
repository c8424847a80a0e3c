// Laws and draws of a row, or of a pair of rows side by side, by a cluster of blocks: a tile of the
// vocabulary a block, a chunk of one or two rounds of 512 elements a warp, in its registers. Two
// exchanges between the blocks: each block pushes its part to all, a barrier in the receiver counts
// the bytes. A block that has passed an exchange may push the next one's; no block ends before all
// has come that is pushed to it. Bits are those of chunk_law.cuh.
#pragma once

#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"
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
  std::uint64_t law_pushed, sums_pushed;
};

// By all threads, before cluster_arrive_relaxed().
__device__ inline void init_pushes(ClusterLawShared& shared) {
  if (threadIdx.x == 0) {
    barrier_init(shared_address(&shared.law_pushed), 1);
    barrier_init(shared_address(&shared.sums_pushed), 1);
    publish_barriers();
  }
  __syncwarp();
}
// By one thread, once, before it waits for them: what the other blocks push. Early, so that who
// comes when all is there need not wait.
__device__ inline void expect_law(Place place, ClusterLawShared& shared) {
  if (place.blocks > 1) {
    barrier_expect(shared_address(&shared.law_pushed),
                   place.blocks * 2 * static_cast<int>(sizeof(LawStat)));
  }
}
__device__ inline void expect_sums(Place place, ClusterLawShared& shared) {
  if (place.blocks > 1) {
    barrier_expect(shared_address(&shared.sums_pushed),
                   place.blocks * static_cast<int>(sizeof(float)));
  }
}
// By all threads: what `barrier` expects has come. A block alone stores instead.
__device__ inline void await_expected(Place place, const std::uint64_t& barrier, int parity = 0) {
  if (place.blocks == 1) {
    __syncthreads();
  } else {
    barrier_wait(shared_address(&barrier), parity);
  }
}
// By all threads: this block's parts of an exchange have been pushed, and `bytes` have come from
// all blocks. The n-th exchange over `barrier` has parity n % 2. A block alone stores instead.
__device__ inline void await_pushes(Place place, const std::uint64_t& barrier, int bytes,
                                    int parity) {
  if (place.blocks > 1 && threadIdx.x == 0) {
    barrier_expect(shared_address(&barrier), bytes);
  }
  await_expected(place, barrier, parity);
}
// `x` to where `own` lies in the block of that rank.
__device__ inline void push(Place place, float* own, float x, int rank,
                            const std::uint64_t& barrier) {
  if (place.blocks == 1) {
    *own = x;
  } else {
    push_float(address_in_block(shared_address(own), rank), x,
               address_in_block(shared_address(&barrier), rank));
  }
}
__device__ inline void push(Place place, LawStat* own, const LawStat& x, int rank,
                            const std::uint64_t& barrier) {
  if (place.blocks == 1) {
    *own = x;
  } else {
    push_pair(address_in_block(shared_address(own), rank),
              {__float_as_uint(x.largest), __float_as_uint(x.sum)},
              address_in_block(shared_address(&barrier), rank));
  }
}

struct RowPair {
  LawStat target, draft;
};

// Statistics of 16 lanes' rows, the lower lanes' and the upper lanes', on all lanes.
__device__ inline RowPair row_pair(const LawStat& member, const LawScale& scale) {
  const LawStat whole = combine16(member, scale);
  return {{__shfl_sync(0xFFFFFFFFU, whole.largest, 0), __shfl_sync(0xFFFFFFFFU, whole.sum, 0)},
          {__shfl_sync(0xFFFFFFFFU, whole.largest, 16), __shfl_sync(0xFFFFFFFFU, whole.sum, 16)}};
}

// By a warp: the statistics of its chunk, 0 of the target's row, 1 of the draft's.
__device__ inline void keep_chunk(ClusterLawShared& shared, int row, const LawStat& stat) {
  if (threadIdx.x % 32 == 0) {
    shared.chunk[row][threadIdx.x / 32] = stat;
  }
}
// Statistics of both rows from the chunks' that the warps keep. REQUIRES: all blocks of the cluster
// run; expect_law; the launch's only exchange_law.
__device__ inline RowPair exchange_law(Place place, const LawScale& scale,
                                       ClusterLawShared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = lane / 16;  // lower lanes take the target, upper ones the draft
  const int member = lane % 16;
  __syncthreads();
  if (warp == 0) {
    const bool any = member < static_cast<int>(blockDim.x) / 32;
    const LawStat tile = combine16(any ? shared.chunk[row][member] : empty_stat(), scale);
    if (member < place.blocks) {
      push(place, &shared.tile[row][place.rank], tile, member, shared.law_pushed);
    }
  }
  await_expected(place, shared.law_pushed);
  return row_pair(member < place.blocks ? shared.tile[row][member] : empty_stat(), scale);
}

// By all threads: the sums of this block's chunks, in shared.sum, go to all blocks as one.
// REQUIRES: all blocks run; a barrier of the block since shared.sum was written.
__device__ inline void push_sums(Place place, ClusterLawShared& shared) {
  if (threadIdx.x < 32) {
    float inside = 0.0F;
#pragma unroll
    for (int i = 0; i < kMaxTiles; ++i) {
      inside += i < static_cast<int>(blockDim.x) / 32 ? shared.sum[i] : 0.0F;
    }
    if (static_cast<int>(threadIdx.x) < place.blocks) {
      push(place, &shared.total[place.rank], inside, static_cast<int>(threadIdx.x),
           shared.sums_pushed);
    }
  }
}
// By all threads: where this block's tile lies in the running sum over the row. REQUIRES:
// expect_sums; the launch's only push_sums.
__device__ inline DrawRange<float> await_sums(Place place, ClusterLawShared& shared) {
  await_expected(place, shared.sums_pushed);
  DrawRange<float> range;
#pragma unroll
  for (int i = 0; i < kMaxTiles; ++i) {
    range.before = i == place.rank ? range.total : range.before;
    range.total += i < place.blocks ? shared.total[i] : 0.0F;
    range.after = i == place.rank ? range.total : range.after;
  }
  return range;
}

// Of a tile's range, the part of this warp's chunk.
__device__ inline DrawRange<float> chunk_range(const DrawRange<float>& tile,
                                               const ClusterLawShared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float before = 0.0F;
#pragma unroll
  for (int i = 0; i < kMaxTiles - 1; ++i) {
    before += i < warp ? shared.sum[i] : 0.0F;
  }
  return {tile.before + before, tile.before + (before + shared.sum[warp]), tile.total};
}

// A draw from the weights in a warp's registers.
template <class T, int kRounds>
__device__ inline int register_draw(const float (&weights)[kRounds][kLaneElements], int chunk,
                                    const LawCut& cut, float before, float target) {
  return chunk_draw<T, float>(
      [&](int first, float(&w)[kLaneElements]) {
        const int round = first / kRoundElements - chunk * kRounds;
#pragma unroll
        for (int r = 0; r < kRounds; ++r) {
          if (r == round) {
#pragma unroll
            for (int j = 0; j < kLaneElements; ++j) {
              w[j] = weights[r][j];
            }
          }
        }
      },
      chunk, cut, before, target);
}

}  // namespace versieve::kernels
