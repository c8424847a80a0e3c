// spec_sample on the CPU: speculative sampling of a chain, the reference of every variant.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double, float or Bf16. Computes in double whatever T is.
template <class T>
void spec_sample_cpu(const SpecSampleParams<T>& p, int threads);

}  // namespace versieve::kernels
