// rope_append on CUDA.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// T = float or Bf16. Enqueue, never wait; need no scratch.
template <class T>
void launch_rope_table(const RopeTableParams<T>& p, const LaunchContext& context);
template <class T>
void launch_rope_append(const RopeAppendParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
