// A cluster of blocks: its barrier in two halves, and stores into a neighbour's shared memory.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace versieve::kernels {

__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// Says that this block runs, and nothing of its memory.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// What threads wrote before it, in any block's shared memory, is there after it.
__device__ inline void cluster_sync() {
  __syncwarp();
  cluster_arrive();
  cluster_wait();
}
__device__ inline int cluster_rank() {
  return static_cast<int>(cooperative_groups::this_cluster().block_rank());
}
__device__ inline int cluster_size() {
  return static_cast<int>(cooperative_groups::this_cluster().num_blocks());
}
// Where `own`, in this block's shared memory, lies in the block of that rank.
template <class E>
__device__ inline E* in_block(E* own, int rank) {
  return cooperative_groups::this_cluster().map_shared_rank(own, rank);
}

}  // namespace versieve::kernels
