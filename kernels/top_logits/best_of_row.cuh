// k = 1 without a log-probability: the index of a row's largest logit. Each warp finds the largest
// value of its piece by comparing registers, 1/2 instruction a bf16 logit; only warps that hold the
// block's largest look for where it lies, and the first block takes the best of what all warps
// pushed.
#pragma once

#include "kernels/ops.h"
#include "kernels/top_logits/row_cluster.cuh"
#include "kernels/top_logits/row_piece.cuh"

namespace versieve::kernels {

struct BestShared {
  std::uint64_t pushed;  // barrier
  std::uint64_t rank[kMaxRowBlocks * kMaxRowWarps];
  std::uint32_t key[kMaxRowWarps];
};

template <class T, int kWords, bool kVector>
__global__ void __launch_bounds__(kMaxRowWarps * 32, kWords <= 8 ? 2 : 1)
    top_logits_best_kernel(const __grid_constant__ TopLogitsParams<T> p) {
  __shared__ BestShared shared;
  const Place place = cluster_place();
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t row = blockIdx.y;
  const std::uint32_t barrier = shared_address(&shared.pushed);
  release_successors();
  if (threadIdx.x == 0) {
    barrier_init(barrier, 1);
    publish_barriers();
    if (place.rank == 0) {
      barrier_expect(barrier, place.blocks * warps * kPushBytes);
    }
  }
  __syncwarp();
  cluster_arrive_relaxed();
  wait_for_predecessors();

  const int piece = place.rank * warps + warp;
  const RowPiece<T, kWords> own =
      load_piece<T, kWords, kVector>(p.logits + row * p.vocab, static_cast<int>(p.vocab), piece);
  const unsigned best = own.best();
  const std::uint32_t key = LogitRegister<T>::key(best, 0);
  const std::uint32_t warp_key = __reduce_max_sync(0xFFFFFFFFU, key);
  if (lane == 0) {
    shared.key[warp] = warp_key;
  }
  __syncthreads();
  const std::uint32_t block_key =
      __reduce_max_sync(0xFFFFFFFFU, lane < warps ? shared.key[lane] : 0);
  cluster_wait();
  std::uint64_t rank = 0;
  if (warp_key == block_key) {
    unsigned index = 0xFFFFFFFFU;
    if (key == block_key) {
      index = static_cast<unsigned>(own.first_index_of(best));
    }
    rank = static_cast<std::uint64_t>(block_key) << 32 | ~__reduce_min_sync(0xFFFFFFFFU, index);
  }
  if (lane == 0) {
    push_rank(address_in_block(shared_address(&shared.rank[piece]), 0), rank,
              address_in_block(barrier, 0));
  }
  if (place.rank != 0 || warp != 0) {
    return;
  }
  barrier_wait(barrier, 0);
  rank = 0;
  for (int i = lane; i < place.blocks * warps; i += 32) {
    rank = shared.rank[i] > rank ? shared.rank[i] : rank;
  }
  rank = best_of_warp(rank);
  if (lane == 0) {
    p.index[row] = index_of(rank);
  }
}

}  // namespace versieve::kernels
