// The bulk copy engine and its barriers, as linear/stream.cu uses them: PTX ISA 8.0, sections on
// mbarrier, cp.async.bulk.tensor and barrier.cluster. Shared addresses are 32-bit.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace versieve::kernels {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Words of shared memory, in program order.
__device__ inline void store_16(std::uint32_t to, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}
__device__ inline uint4 load_16(std::uint32_t from) {
  uint4 word;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "r"(from)
               : "memory");
  return word;
}
__device__ inline float load_4(std::uint32_t from) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
  return value;
}

__device__ inline void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
// Barriers are ready for the copy engine.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives; the phase ends when that many bytes have been copied too.
__device__ inline void barrier_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// Returns when the phase of that parity has ended.
__device__ inline void barrier_wait(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// How long a copied line stays in the second-level cache (createpolicy's encodings).
inline constexpr std::uint64_t kEvictFirst = 0x12F0000000000000U;
inline constexpr std::uint64_t kEvictLast = 0x14F0000000000000U;

__device__ inline void prefetch_descriptor(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// The box of `map` that starts at (column, row) into shared memory; counts on `barrier`.
__device__ inline void copy_box(std::uint32_t to, const CUtensorMap* map, int column, int row,
                                std::uint32_t barrier, std::uint64_t keep) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(keep)
      : "memory");
}
// The same, only if `live`: one instruction, so that passing it once fetches it.
__device__ inline void copy_box_if(bool live, std::uint32_t to, const CUtensorMap* map, int column,
                                   int row, std::uint32_t barrier, std::uint64_t keep) {
  asm volatile(
      "{\n.reg .pred live;\nsetp.ne.b32 live, %6, 0;\n"
      "@live cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;\n}" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier), "l"(keep), "r"(static_cast<int>(live))
      : "memory");
}

// kThreads threads of the block meet at one of its barriers 1 to 15.
template <int kBarrier, int kThreads>
__device__ inline void meet() {
  asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

// All threads of the cluster meet. What they wrote is not ordered by this (a release would wait for
// their global writes too): others see shared memory through barriers that count its bytes.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() {
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}
// Sixteen bytes past the first-level cache, from global to shared memory: there, for this thread,
// after await_fetched().
__device__ inline void fetch_16(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void await_fetched() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
// Writes 4 bytes to the same shared address of a block of the cluster and counts them on that
// block's `barrier`.
__device__ inline void send_float(std::uint32_t address, std::uint32_t barrier, unsigned block,
                                  float value) {
  std::uint32_t remote, remote_barrier;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(block));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(remote_barrier)
               : "r"(barrier), "r"(block));
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(remote),
      "r"(__float_as_uint(value)), "r"(remote_barrier)
      : "memory");
}
// Writes to shared memory so far may be read by the copy engine.
__device__ inline void fence_for_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// `bytes` (a multiple of 16) of this block's shared memory to the address `to` of another block of
// the cluster; counts on that block's barrier at the address `barrier`.
__device__ inline void copy_to_block(unsigned block, std::uint32_t to, std::uint32_t from,
                                     int bytes, std::uint32_t barrier) {
  std::uint32_t remote_to, remote_barrier;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote_to) : "r"(to), "r"(block));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(remote_barrier)
               : "r"(barrier), "r"(block));
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(remote_to),
      "r"(from), "r"(bytes), "r"(remote_barrier)
      : "memory");
}

}  // namespace versieve::kernels
