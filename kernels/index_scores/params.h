// index_scores: how much each query wants each position, by small index keys (the indexer of
// DeepSeek Sparse Attention). Shapes: R queries, L positions, H index heads, d their size.
#pragma once

#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/common/step_counts.h"

namespace versieve::kernels {

template <class T>
struct IndexScoresParams {
  // Device memory or null. Not null: `length` is a bound; positions from counts->context_len -
  // newest on score -infinity, whatever their keys are.
  const StepCounts* counts = nullptr;
  std::int64_t newest = 0;
  std::int64_t rows = 0;           // R
  std::int64_t length = 0;         // L
  std::int64_t num_heads = 0;      // H
  std::int64_t head_dim = 0;       // d
  const T* q = nullptr;            // [R, H, d]
  const float* weights = nullptr;  // [R, H]
  const T* keys = nullptr;         // [L, d], one a position for all heads
  T* scores = nullptr;             // [R, L]
};

}  // namespace versieve::kernels
