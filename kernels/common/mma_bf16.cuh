// Warp-level tensor-core pieces shared by the bf16 kernels: asynchronous 16-byte copies, swizzled
// tiles in shared memory, matrix fragments and m16n8k16 products with f32 sums.
//
// A row of D is a function of the same row of A, of B and of the same row of C alone, so that tiles
// may be filled with any mixture of rows without touching a bit of the others.
#pragma once

#include <cstdint>

namespace versieve::kernels {

// 16 bytes from global to shared memory; `exists` false writes zeros and reads nothing.
__device__ inline void copy_chunk_async(std::uint32_t shared, const void* global, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global),
               "r"(exists ? 16 : 0));
}

// Chunk c (of 8 elements) of row r of a tile whose rows are kRowBytes long: chunks are permuted
// within a row so that eight rows of one chunk column fall into different banks.
template <int kRowBytes>
__device__ inline std::uint32_t swizzled_chunk(std::uint32_t tile, int row, int chunk) {
  return tile + static_cast<std::uint32_t>(row * kRowBytes + ((chunk ^ (row & 7)) * 16));
}

__device__ inline void load_matrices_x4(std::uint32_t address, std::uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline void load_matrices_x4_transposed(std::uint32_t address, std::uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
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

// Two floats as a pair of bf16, `low` in the lower half, each rounded to nearest even.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// 2^x, denormal results as 0. For x = n + f with n integer the bits of the fraction depend on f
// alone.
__device__ inline float exp2_flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float multiply_flushed(float a, float b) {
  float y;
  asm("mul.rn.ftz.f32 %0, %1, %2;\n" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

}  // namespace versieve::kernels
