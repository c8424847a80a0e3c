// A cluster of blocks: its barrier in two halves, addresses in a neighbour's shared memory, and
// stores there that a barrier of the neighbour counts.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// This thread's half of the barrier; what it wrote is there behind cluster_wait().
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
}
// Says that this block runs, and nothing of its memory: a release would wait for global writes too.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}
// All threads of the cluster have arrived.
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
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
  VERSIEVE_DEVICE_ASSERT(rank >= 0 && rank < cluster_size(), "the cluster has such a block");
  return cooperative_groups::this_cluster().map_shared_rank(own, rank);
}
// The same for addresses of shared memory.
__device__ inline std::uint32_t address_in_block(std::uint32_t own, int rank) {
  VERSIEVE_DEVICE_ASSERT(rank >= 0 && rank < cluster_size(), "the cluster has such a block");
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(own), "r"(rank));
  return there;
}

// Stores into another block's shared memory, counted in bytes by a barrier there (mbarrier.cuh):
// who waits for it sees them, without a fence of this block. REQUIRES: a launch in clusters; both
// addresses in the same block, `there` on a multiple of what is stored.
__device__ inline void push_float(std::uint32_t there, float x, std::uint32_t barrier) {
  VERSIEVE_DEVICE_ASSERT(there % 4 == 0 && barrier % 8 == 0, "a float lies on a multiple of 4");
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];\n" ::"r"(there),
      "r"(__float_as_uint(x)), "r"(barrier)
      : "memory");
}
__device__ inline void push_pair(std::uint32_t there, uint2 x, std::uint32_t barrier) {
  VERSIEVE_DEVICE_ASSERT(there % 8 == 0 && barrier % 8 == 0, "8 bytes lie on a multiple of 8");
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];\n" ::"r"(
          there),
      "r"(x.x), "r"(x.y), "r"(barrier)
      : "memory");
}
__device__ inline void push_word(std::uint32_t there, const uint4& x, std::uint32_t barrier) {
  VERSIEVE_DEVICE_ASSERT(there % 16 == 0 && barrier % 8 == 0, "16 bytes lie on a multiple of 16");
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];\n" ::"r"(there),
      "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(barrier)
      : "memory");
}

}  // namespace versieve::kernels
