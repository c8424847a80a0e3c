// compress (phi) on the CPU: one compressed token per (row, KV head).
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double, float or Bf16 (computed in f32). Sums over the l tokens in their order.
template <class T>
void compress_cpu(const CompressParams<T>& p, int threads);

}  // namespace versieve::kernels
