// A warp's tensor-core products (mma.sync) of bf16 with f32 sums, and the 8 x 8 matrices of bf16
// that it loads and stores for them.
//
// A row of D is a function of the same row of A, of B and of the same row of C alone, so that tiles
// may be filled with any mixture of rows without touching a bit of the others.
#pragma once

#include <cstdint>

#include "kernels/ptx/device_assert.cuh"

namespace versieve::kernels {

// Four matrices from shared memory: lanes 8 i to 8 i + 7 name the rows of matrix i, 16 bytes each
// on a multiple of 16.
__device__ inline void load_matrices_x4(std::uint32_t address, std::uint32_t (&r)[4]) {
  VERSIEVE_DEVICE_ASSERT(address % 16 == 0, "a matrix row lies on a multiple of 16");
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
// The same, columns as rows.
__device__ inline void load_matrices_x4_transposed(std::uint32_t address, std::uint32_t (&r)[4]) {
  VERSIEVE_DEVICE_ASSERT(address % 16 == 0, "a matrix row lies on a multiple of 16");
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
// Four matrices, of which a thread holds row t / 4, columns t % 4 * 2 (+ 1), into shared memory,
// columns as rows: lanes 8 i to 8 i + 7 name where those of matrix i go.
__device__ inline void store_matrices_x4_transposed(std::uint32_t address, std::uint32_t a,
                                                    std::uint32_t b, std::uint32_t c,
                                                    std::uint32_t d) {
  VERSIEVE_DEVICE_ASSERT(address % 16 == 0, "a matrix row lies on a multiple of 16");
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(address),
      "r"(a), "r"(b), "r"(c), "r"(d)
      : "memory");
}

// d += a b: 16 x 8 sums over 16 products each.
__device__ inline void multiply_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4],
                                         std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace versieve::kernels
