// What a block does for all blocks of its cluster: boxes of tensor maps that the copy engine writes
// into several of them (bulk_copy.cuh), and arrivals at another block's barrier (mbarrier.cuh).
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

inline constexpr std::uint64_t kEvictNormal =
    0x1000000000000000U;  // beside kEvictFirst, kEvictLast

// copy_box_2d into the blocks of the cluster whose bits `blocks` has: in each to that address of
// its shared memory, counted on its barrier at that address.
__device__ inline void copy_box_2d_to(unsigned blocks, std::uint32_t to, const CUtensorMap* map,
                                      int x, int y, std::uint32_t barrier, std::uint64_t keep) {
  check_box(to, map, barrier);
  VERSIEVE_DEVICE_ASSERT(blocks != 0 && blocks >> cluster_size() == 0, "the cluster has them");
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;\n" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(static_cast<std::uint16_t>(blocks)), "l"(keep)
      : "memory");
}
// The box of a four-dimensional map that starts at (x, y, z, w), and the same for several blocks.
__device__ inline void copy_box_4d(std::uint32_t to, const CUtensorMap* map, int x, int y, int z,
                                   int w, std::uint32_t barrier, std::uint64_t keep) {
  check_box(to, map, barrier);
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;\n" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier), "l"(keep)
      : "memory");
}
__device__ inline void copy_box_4d_to(unsigned blocks, std::uint32_t to, const CUtensorMap* map,
                                      int x, int y, int z, int w, std::uint32_t barrier,
                                      std::uint64_t keep) {
  check_box(to, map, barrier);
  VERSIEVE_DEVICE_ASSERT(blocks != 0 && blocks >> cluster_size() == 0, "the cluster has them");
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7, %8;\n" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier),
      "h"(static_cast<std::uint16_t>(blocks)), "l"(keep)
      : "memory");
}

// Arrives once at a barrier of any block of the cluster, by its address_in_block(). Says nothing of
// what this thread wrote, only that what it read may be overwritten: a release would be a fence.
__device__ inline void barrier_arrive_in(std::uint32_t there) {
  VERSIEVE_DEVICE_ASSERT(there % 8 == 0, "a barrier lies on a multiple of 8");
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];\n" ::"r"(there)
               : "memory");
}

}  // namespace versieve::kernels
