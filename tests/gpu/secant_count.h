// The counting of Guess-Verify-Refine top-k by secants, alone: what a form with it takes at least,
// to set beside kernels/topk's forms, which bin scores instead.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace versieve::testing {

struct SecantCount {
  std::int64_t rows = 0;
  std::int64_t length = 0;  // a multiple of 4, at most 32,768: a block holds a row in registers
  std::int64_t k = 0;
  const float* scores = nullptr;       // [R, Lp]
  const std::int32_t* hint = nullptr;  // [R, k], valid indices
  std::int32_t* counts = nullptr;      // [R]: passes over the row
  std::int32_t* reached = nullptr;     // [R]: scores that reach the last threshold
};

// The threshold begins at the least hinted score and moves by the secant of the two nearest counts
// until k to k + max(k / 2, 32) scores reach it, 12 counts at most. Nothing is selected or written
// but the counts.
void enqueue_secant_count(const SecantCount& s, cudaStream_t stream);

}  // namespace versieve::testing
