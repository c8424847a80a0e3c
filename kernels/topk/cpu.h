// topk on the CPU. `sort` is the exact reference of every variant, by a full sort of each row;
// `radix` and `gvr` find the cut of cut.h.
#pragma once

#include "kernels/topk/params.h"

namespace versieve::kernels {

// T = double, float or Bf16.
template <class T>
void topk_cpu(const TopkParams<T>& p, int threads);

}  // namespace versieve::kernels
