// attention_weights on the CPU: the reference.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double, float or Bf16.
template <class T>
void attention_weights_cpu(const AttentionWeightsParams<T>& p, int threads);

}  // namespace versieve::kernels
