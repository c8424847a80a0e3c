// top_p on the CPU: the reference.
#pragma once

#include "kernels/top_p/params.h"

namespace versieve::kernels {

// S = double or float. REQUIRES: weights finite and not negative.
template <class S>
void top_p_cpu(const TopPParams<S>& p, int threads);

}  // namespace versieve::kernels
