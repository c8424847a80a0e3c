// tree_attention of several sequences on the GPU: one launch for up to 64 calls.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// Calls of one model: heads, head size and kind of queries (joint or not) are alike, all or none
// have selected tokens, none has weights or counts, and none reads what another writes. Each has
// the bits that it has alone.
template <class T>
void launch_tree_attention_together(std::span<const TreeAttentionParams<T>> calls,
                                    const LaunchContext& context);

}  // namespace versieve::kernels
#endif
