// attention_weights on CUDA: scores, each head's maximum and sum, the mean over heads.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// What launch_attention_weights needs of context.scratch.
template <class T>
std::size_t attention_weights_scratch_bytes(const AttentionWeightsParams<T>& p);
// T = float or Bf16. Enqueues, never waits. Throws Error(kAnswerNo) for a head size that is no
// multiple of 16 up to 128 or more than 16 query heads a KV head.
template <class T>
void launch_attention_weights(const AttentionWeightsParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
