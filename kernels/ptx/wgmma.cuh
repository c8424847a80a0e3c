// wgmma: a warpgroup's asynchronous tensor-core product, D[64, N] += A[64, 16] B[N, 16]^T, both
// from shared memory in bf16, D in f32 registers. Rows of A and B are 128 bytes of K, swizzled as
// the copy engine's 128-byte mode leaves them (PTX ISA 8.0, section on wgmma).
//
// D: thread t of the warpgroup holds rows t / 32 * 16 + t % 32 / 4 (+ 8) and, for each 8 columns,
// columns t % 4 * 2 (+ 1): d[8-column group][row half * 2 + column].
#pragma once

#include <cstdint>

#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// Registers and shared memory written so far may be read by the products that follow.
__device__ inline void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// The products since the last group are a group.
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// All but the newest kPending groups have ended.
template <int kPending>
__device__ inline void wgmma_wait() {
  static_assert(kPending >= 0 && kPending < 8, "as PTX has it");
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Describes rows of 128 bytes from a shared address on a multiple of 1,024 (or 32 bytes of K
// further on): 128-byte swizzle, 1,024 bytes between groups of 8 rows.
__device__ inline std::uint64_t wgmma_operand(std::uint32_t address) {
  VERSIEVE_DEVICE_ASSERT(address % 1024 < 128 && address % 16 == 0,
                         "rows of 128 bytes begin on a multiple of 1,024");
  return (std::uint64_t{1} << 62) | (std::uint64_t{1024 >> 4} << 32) | (std::uint64_t{1} << 16) |
         static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4);
}

// The sums are what they are here, behind wgmma_wait(): the compiler reads none of them before. No
// instruction.
template <int kGroups>
__device__ __forceinline__ void settle_sums(float (&d)[kGroups][4]) {
#pragma unroll
  for (int i = 0; i < kGroups; ++i) {
    asm volatile("" : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])::"memory");
  }
}

// Describes a b whose rows lie along K, [K][128 bytes of N], as values of keys do: from a shared
// address on a multiple of 1,024, 128-byte swizzle, 1,024 bytes between groups of 8 of K and
// `panel_bytes` between panels of 64 columns.
__device__ inline std::uint64_t wgmma_transposed_operand(std::uint32_t address, int panel_bytes) {
  VERSIEVE_DEVICE_ASSERT(address % 1024 == 0 && panel_bytes % 1024 == 0,
                         "panels begin on a multiple of 1,024");
  return (std::uint64_t{1} << 62) | (std::uint64_t{1024 >> 4} << 32) |
         (static_cast<std::uint64_t>(panel_bytes >> 4) << 16) |
         static_cast<std::uint64_t>((address & 0x3FFFFU) >> 4);
}

// The instruction names each register of D by its number and wants each as an operand of its own,
// so both lists are written out by doubling: SUMS_n the operands of n columns, NAMES_n their names.
#define VERSIEVE_WGMMA_SUMS_8(how, i) how(d[i][0]), how(d[i][1]), how(d[i][2]), how(d[i][3])
#define VERSIEVE_WGMMA_SUMS_16(how, i) \
  VERSIEVE_WGMMA_SUMS_8(how, i), VERSIEVE_WGMMA_SUMS_8(how, (i) + 1)
#define VERSIEVE_WGMMA_SUMS_32(how, i) \
  VERSIEVE_WGMMA_SUMS_16(how, i), VERSIEVE_WGMMA_SUMS_16(how, (i) + 2)
#define VERSIEVE_WGMMA_SUMS_64(how, i) \
  VERSIEVE_WGMMA_SUMS_32(how, i), VERSIEVE_WGMMA_SUMS_32(how, (i) + 4)
#define VERSIEVE_WGMMA_SUMS_128(how, i) \
  VERSIEVE_WGMMA_SUMS_64(how, i), VERSIEVE_WGMMA_SUMS_64(how, (i) + 8)
#define VERSIEVE_WGMMA_SUMS_192(how, i) \
  VERSIEVE_WGMMA_SUMS_128(how, i), VERSIEVE_WGMMA_SUMS_64(how, (i) + 16)
#define VERSIEVE_WGMMA_NAMES_8 "%0, %1, %2, %3"
#define VERSIEVE_WGMMA_NAMES_16 VERSIEVE_WGMMA_NAMES_8 ", %4, %5, %6, %7"
#define VERSIEVE_WGMMA_NAMES_32 VERSIEVE_WGMMA_NAMES_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define VERSIEVE_WGMMA_NAMES_64 \
  VERSIEVE_WGMMA_NAMES_32       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define VERSIEVE_WGMMA_NAMES_128                                                     \
  VERSIEVE_WGMMA_NAMES_64                                                            \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47" \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define VERSIEVE_WGMMA_NAMES_192                                                     \
  VERSIEVE_WGMMA_NAMES_128                                                           \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79" \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
// `add`, `a` and `b` are the names of the operands behind D's registers; `modes` of the
// instruction.
#define VERSIEVE_WGMMA(n, add, a, b, modes)                                                \
  "{\n.reg .pred add;\nsetp.ne.b32 add, " add ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n \
  "k16.f32.bf16.bf16 {" VERSIEVE_WGMMA_NAMES_##n "}, " a ", " b ", add, " modes ";\n}"

// d += a b^T.
template <int kColumns>
__device__ void wgmma(float (&d)[kColumns / 8][4], std::uint64_t a, std::uint64_t b);
#define VERSIEVE_WGMMA_ADD(n, at_a, at_b)                                                    \
  template <>                                                                                \
  __device__ inline void wgmma<n>(float (&d)[(n) / 8][4], std::uint64_t a, std::uint64_t b) { \
    asm volatile(VERSIEVE_WGMMA(n, "1", at_a, at_b, "1, 1, 0, 0")                            \
                 : VERSIEVE_WGMMA_SUMS_##n("+f", 0)                                          \
                 : "l"(a), "l"(b));                                                          \
  }
VERSIEVE_WGMMA_ADD(8, "%4", "%5")
VERSIEVE_WGMMA_ADD(16, "%8", "%9")
VERSIEVE_WGMMA_ADD(32, "%16", "%17")
VERSIEVE_WGMMA_ADD(64, "%32", "%33")
VERSIEVE_WGMMA_ADD(128, "%64", "%65")

// d = a b^T: what a sum begins with.
template <int kColumns>
__device__ void wgmma_start(float (&d)[kColumns / 8][4], std::uint64_t a, std::uint64_t b);
#define VERSIEVE_WGMMA_START(n, at_a, at_b)                                                        \
  template <>                                                                                      \
  __device__ inline void wgmma_start<n>(float (&d)[(n) / 8][4], std::uint64_t a, std::uint64_t b) { \
    asm volatile(VERSIEVE_WGMMA(n, "0", at_a, at_b, "1, 1, 0, 0")                                  \
                 : VERSIEVE_WGMMA_SUMS_##n("=f", 0)                                                \
                 : "l"(a), "l"(b));                                                                \
  }
VERSIEVE_WGMMA_START(64, "%32", "%33")
VERSIEVE_WGMMA_START(128, "%64", "%65")

// d = a b^T, or d += a b^T if it `adds`: for sums that begin anew between products.
template <int kColumns>
__device__ void wgmma(float (&d)[kColumns / 8][4], std::uint64_t a, std::uint64_t b, bool adds);
#define VERSIEVE_WGMMA_IF(n, at_a, at_b, at_adds)                                          \
  template <>                                                                              \
  __device__ inline void wgmma<n>(float (&d)[(n) / 8][4], std::uint64_t a, std::uint64_t b, \
                                  bool adds) {                                             \
    asm volatile(VERSIEVE_WGMMA(n, at_adds, at_a, at_b, "1, 1, 0, 0")                      \
                 : VERSIEVE_WGMMA_SUMS_##n("+f", 0)                                        \
                 : "l"(a), "l"(b), "r"(static_cast<int>(adds)));                           \
  }
VERSIEVE_WGMMA_IF(64, "%32", "%33", "%34")
VERSIEVE_WGMMA_IF(128, "%64", "%65", "%66")
VERSIEVE_WGMMA_IF(192, "%96", "%97", "%98")

// d += a b with a from registers, as the warps' m16n8k16 products take it (mma.cuh), and b a
// transposed operand.
template <int kColumns>
__device__ void wgmma_rows(float (&d)[kColumns / 8][4], const std::uint32_t (&a)[4],
                           std::uint64_t b);
#define VERSIEVE_WGMMA_ROWS(n, at_a, at_b)                                                \
  template <>                                                                             \
  __device__ inline void wgmma_rows<n>(float (&d)[(n) / 8][4], const std::uint32_t(&a)[4], \
                                       std::uint64_t b) {                                 \
    asm volatile(VERSIEVE_WGMMA(n, "1", at_a, at_b, "1, 1, 1")                            \
                 : VERSIEVE_WGMMA_SUMS_##n("+f", 0)                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                   \
  }
VERSIEVE_WGMMA_ROWS(64, "{%32, %33, %34, %35}", "%36")
VERSIEVE_WGMMA_ROWS(128, "{%64, %65, %66, %67}", "%68")

#undef VERSIEVE_WGMMA_ROWS
#undef VERSIEVE_WGMMA_IF
#undef VERSIEVE_WGMMA_START
#undef VERSIEVE_WGMMA_ADD
#undef VERSIEVE_WGMMA
#undef VERSIEVE_WGMMA_SUMS_8
#undef VERSIEVE_WGMMA_NAMES_8
#undef VERSIEVE_WGMMA_SUMS_16
#undef VERSIEVE_WGMMA_NAMES_16
#undef VERSIEVE_WGMMA_SUMS_32
#undef VERSIEVE_WGMMA_NAMES_32
#undef VERSIEVE_WGMMA_SUMS_64
#undef VERSIEVE_WGMMA_NAMES_64
#undef VERSIEVE_WGMMA_SUMS_128
#undef VERSIEVE_WGMMA_NAMES_128
#undef VERSIEVE_WGMMA_SUMS_192
#undef VERSIEVE_WGMMA_NAMES_192

}  // namespace versieve::kernels
