// tree_attention on the GPU: one CTA a (query, KV head), keys in chunks fixed by position.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// T = float or Bf16. REQUIRES: a child's position is its parent's + 1. Throws Error(kAnswerNo) for
// a head size not a multiple of 16 up to 128, H/G > 16 or more than 4096 nodes. Uses no scratch.
template <class T>
void launch_tree_attention(const TreeAttentionParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
