// index_scores on the CPU: the reference.
#pragma once

#include "kernels/index_scores/params.h"

namespace versieve::kernels {

// T = double, float or Bf16; heads are added in ascending order, in double for double, else in f32.
template <class T>
void index_scores_cpu(const IndexScoresParams<T>& p, int threads);

}  // namespace versieve::kernels
