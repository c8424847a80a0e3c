// A cluster of blocks: its barrier in two halves, and stores into a neighbour's shared memory.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdint>

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
// This block in its cluster; read once, for special registers are slow.
struct Place {
  int rank, blocks;
};
__device__ inline Place cluster_place() {
  return {cluster_rank(), cluster_size()};
}
// Where `own`, in this block's shared memory, lies in the block of that rank.
template <class E>
__device__ inline E* in_block(E* own, int rank) {
  return cooperative_groups::this_cluster().map_shared_rank(own, rank);
}

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
// The same for addresses of shared memory.
__device__ inline std::uint32_t address_in_block(std::uint32_t own, int rank) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank));
  return there;
}
// Stores into another block's shared memory, counted in bytes by a barrier there (of
// kernels/common/tile_copy.cuh): who waits for it sees them, without a fence of this block.
// REQUIRES: a launch in clusters; both addresses in the same block.
__device__ inline void push_float(std::uint32_t there, float x, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there),
      "r"(__float_as_uint(x)), "r"(barrier)
      : "memory");
}
__device__ inline void push_pair(std::uint32_t there, uint2 x, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(
          there),
      "r"(x.x), "r"(x.y), "r"(barrier)
      : "memory");
}
__device__ inline void push_word(std::uint32_t there, const uint4& x, std::uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(there),
      "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(barrier)
      : "memory");
}

}  // namespace versieve::kernels
