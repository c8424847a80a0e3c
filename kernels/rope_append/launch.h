// rope_append on CUDA.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// T = float or Bf16. Enqueues, never waits; needs no scratch.
template <class T>
void launch_rope_append(const RopeAppendParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
