// linear on the CPU: y = x w^T (+ residual). Every output y[n, m] is summed in one fixed order,
// whatever N and the tile it falls in: lane j of 8 takes k = j, j + 8, ... in turn (fused
// multiply-adds), then the lanes are added as ((0+4)+(2+6)) + ((1+5)+(3+7)).
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double or float.
template <class T>
void linear_cpu(const LinearParams<T>& p, int threads);

}  // namespace versieve::kernels
