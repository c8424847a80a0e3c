// gumbel_top of several requests' rows on CUDA.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/samplers_together.h"

namespace versieve::kernels {

// T = float or Bf16. Enqueues, never waits.
template <class T>
void launch_gumbel_rows(const GumbelRowsParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
