// Sums of squares that thread blocks add up in any order (SquareSum, kernels/common/square_sum.h).
#pragma once

#include "kernels/common/square_sum.h"

namespace versieve::kernels {

// Rounded to the unit; exact up to 24 bits.
__device__ inline SquareSum square_sum(float sum) {
  return __float2ull_rn(sum * static_cast<float>(1.0 / kSquareSumUnit));
}

// 1 / sqrt(mean + eps) of a row of k elements.
__device__ inline float inverse_rms(SquareSum sum, std::int64_t k, double eps) {
  const float mean =
      static_cast<float>(static_cast<double>(sum) * (kSquareSumUnit / static_cast<double>(k)));
  return 1.0F / sqrtf(mean + static_cast<float>(eps));
}

}  // namespace versieve::kernels
