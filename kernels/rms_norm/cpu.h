// rms_norm on the CPU: y = x / sqrt(mean(x^2) + eps) * weight, row by row, or its first half.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double or float. The squares are summed in double, in index order.
template <class T>
void rms_norm_cpu(const RmsNormParams<T>& p, int threads);

}  // namespace versieve::kernels
