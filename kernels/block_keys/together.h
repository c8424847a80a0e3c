// block_keys of several sequences on the GPU: one launch for up to 64 calls.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <span>

#include "kernels/block_keys/params.h"
#include "kernels/common/launch_context.h"

namespace versieve::kernels {

// T = float or Bf16. Calls of one model, of which none reads what another writes. Enqueues, never
// waits, uses no scratch.
template <class T>
void launch_block_keys_together(std::span<const BlockKeysParams<T>> calls,
                                const LaunchContext& context);

}  // namespace versieve::kernels
#endif
