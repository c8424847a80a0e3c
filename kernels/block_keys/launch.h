// block_keys on the GPU.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/block_keys/params.h"
#include "kernels/common/launch_context.h"

namespace versieve::kernels {

// T = float or Bf16. Uses no scratch.
template <class T>
void launch_block_keys(const BlockKeysParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
