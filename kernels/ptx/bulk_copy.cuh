// The copy engine (cp.async.bulk, compute capability 9.0): boxes of tensor maps into shared memory,
// and shared memory into another block of the cluster. Copies count their bytes on a barrier
// (mbarrier.cuh); one thread asks.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// How long a copied line stays in the second-level cache (createpolicy's encodings).
inline constexpr std::uint64_t kEvictFirst = 0x12F0000000000000U;
inline constexpr std::uint64_t kEvictLast = 0x14F0000000000000U;

// What every box requires: both its place and the map's lie as the copy engine takes them.
__device__ inline void check_box(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier) {
  VERSIEVE_DEVICE_ASSERT(to % 128 == 0, "a box goes to a multiple of 128 bytes");
  VERSIEVE_DEVICE_ASSERT(reinterpret_cast<std::uintptr_t>(map) % 64 == 0,
                         "a tensor map lies on a multiple of 64");
  VERSIEVE_DEVICE_ASSERT(barrier % 8 == 0, "a barrier lies on a multiple of 8");
}

// Fetches a map before its first use.
__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}
// The box of a two-dimensional map that starts at (x, y) into shared memory; counts on `barrier`.
__device__ inline void copy_box_2d(std::uint32_t to, const CUtensorMap* map, int x, int y,
                                   std::uint32_t barrier, std::uint64_t keep) {
  check_box(to, map, barrier);
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(keep)
      : "memory");
}
// The same, only if `live`: one instruction, so that passing it once fetches it.
__device__ inline void copy_box_2d_if(bool live, std::uint32_t to, const CUtensorMap* map, int x,
                                      int y, std::uint32_t barrier, std::uint64_t keep) {
  check_box(to, map, barrier);
  asm volatile(
      "{\n.reg .pred live;\nsetp.ne.b32 live, %6, 0;\n"
      "@live cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;\n}\n" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(keep), "r"(static_cast<int>(live))
      : "memory");
}
// The box of a three-dimensional map that starts at (x, y, z).
__device__ inline void copy_box_3d(std::uint32_t to, const CUtensorMap* map, int x, int y, int z,
                                   std::uint32_t barrier) {
  check_box(to, map, barrier);
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];\n" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
__device__ inline void copy_box_3d(std::uint32_t to, const CUtensorMap* map, int x, int y, int z,
                                   std::uint32_t barrier, std::uint64_t keep) {
  check_box(to, map, barrier);
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;\n" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(keep)
      : "memory");
}

// `bytes` of this block's shared memory to the address `to` of block `rank` of the cluster; counts
// on that block's barrier at the address `barrier`. REQUIRES: all multiples of 16.
__device__ inline void copy_to_block(int rank, std::uint32_t to, std::uint32_t from, int bytes,
                                     std::uint32_t barrier) {
  VERSIEVE_DEVICE_ASSERT(to % 16 == 0 && from % 16 == 0 && bytes > 0 && bytes % 16 == 0,
                         "whole 16 bytes are copied between blocks");
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];\n" ::"r"(address_in_block(to, rank)),
      "r"(from), "r"(bytes), "r"(address_in_block(barrier, rank))
      : "memory");
}

}  // namespace versieve::kernels
