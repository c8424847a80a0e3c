// compress (phi) on the GPU: one CTA a (row, KV head), one thread an element.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// T = float or Bf16. Throws Error(kAnswerNo) for a head size above 1024. Uses no scratch.
template <class T>
void launch_compress(const CompressParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
