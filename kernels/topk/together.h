// topk of several sequences on the GPU: their rows in one launch for those that a block's registers
// hold and one for longer ones, up to 64 calls each.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/topk/params.h"

namespace versieve::kernels {

// What launch_topk_together needs of context.scratch.
template <class T>
std::size_t topk_together_scratch_bytes(std::span<const TopkParams<T>> calls);
// T = float or Bf16. Calls of which none reads what another writes. Variant `sort` and rows too
// long for a cluster take launches of their own. Enqueues, never waits.
template <class T>
void launch_topk_together(std::span<const TopkParams<T>> calls, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
