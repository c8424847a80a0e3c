// attention_weights of several sequences on the GPU: up to 64 calls in the three launches of one.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// What launch_attention_weights_together needs of context.scratch: up to 256 MiB of several calls.
template <class T>
std::size_t attention_weights_together_scratch_bytes(
    std::span<const AttentionWeightsParams<T>> calls);
// T = float or Bf16. Calls of one model, of which none reads what another writes; each has the bits
// that it has alone. Enqueues, never waits. Throws as launch_attention_weights.
template <class T>
void launch_attention_weights_together(std::span<const AttentionWeightsParams<T>> calls,
                                       const LaunchContext& context);

}  // namespace versieve::kernels
#endif
