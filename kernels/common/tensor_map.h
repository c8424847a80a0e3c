// The copy engine's descriptions of bf16 data in rows (CUtensorMap).
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cuda.h>

#include <cstdint>

#include "kernels/common/bf16.h"

namespace versieve::kernels {

// Boxes of `box_rows` (<= 256) rows by 64 columns (128 bytes, 128-byte swizzle) of `matrix`
// [rows, columns]; what lies outside reads as 0. REQUIRES: matrix on 16 bytes, columns a multiple
// of 8. Throws Error(kEnvironment) if the driver has no tensor maps.
CUtensorMap matrix_map(const Bf16* matrix, std::int64_t rows, std::int64_t columns, int box_rows);
// The same of a matrix whose columns are cut into `slices` equal parts: boxes of `box_rows` rows by
// 64 columns of each of them, a slice's rows behind another's, at (column of the slice, row, 0).
// REQUIRES also: columns a multiple of 8 slices.
CUtensorMap sliced_matrix_map(const Bf16* matrix, std::int64_t rows, std::int64_t columns,
                              int box_rows, int slices);
// Boxes of `box_rows` rows of one KV head by 64 elements of `cache` [rows, G, d], rows >= 1; what
// lies outside, elements past d too, reads as 0. The same demands and error.
CUtensorMap cache_map(const Bf16* cache, std::int64_t rows, std::int64_t kv_heads,
                      std::int64_t head_dim, int box_rows);

}  // namespace versieve::kernels
#endif
