// The copy engine's description of a matrix whose upper and lower half are read by turns
// (tensor_map.h has the plain ones).
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cuda.h>

#include <cstdint>

#include "kernels/common/bf16.h"

namespace versieve::kernels {

// Of `matrix` [2 half_rows, columns] boxes of 64 columns (128-byte swizzle): 8 rows, the 8 rows
// half_rows behind them, the next 8 rows ..., `box_eights` eights of each half, at (column, 0, 0,
// row / 8). What lies outside reads as 0. REQUIRES: matrix on 16 bytes, columns and half_rows
// multiples of 8. Throws Error(kEnvironment) if the driver has no tensor maps.
CUtensorMap paired_matrix_map(const Bf16* matrix, std::int64_t half_rows, std::int64_t columns,
                              int box_eights);

}  // namespace versieve::kernels
#endif
