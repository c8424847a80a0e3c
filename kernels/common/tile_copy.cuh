// Bulk tensor copies into shared memory (the copy engine of compute capability 9.0) and the
// barriers in shared memory that count their bytes.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace versieve::kernels {

__device__ inline void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
               : "memory");
}
// Before its memory serves anything else, another barrier too.
__device__ inline void barrier_invalidate(std::uint32_t barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];\n" ::"r"(barrier) : "memory");
}
// After barrier_init, before other threads or the copy engine use the barriers.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;\n" ::
                   : "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// Arrives; the phase ends when also `bytes` have been copied.
__device__ inline void barrier_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished_%=;\n"
      "bra again_%=;\n"
      "finished_%=:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ inline void store_chunk(std::uint32_t shared, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(shared), "r"(x.x), "r"(x.y),
               "r"(x.z), "r"(x.w)
               : "memory");
}
// Fetches a map before its first use.
__device__ inline void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}
// The box of a three-dimensional map that starts at (x, y, z), completing on `barrier`.
__device__ inline void copy_tile_async(std::uint32_t shared, const CUtensorMap* map, int x, int y,
                                       int z, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];\n" ::"r"(shared),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

}  // namespace versieve::kernels
