// topk on CUDA, variant `sort`: the CUB radix baseline.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/topk/params.h"

namespace versieve::kernels {

// What launch_topk needs of context.scratch.
template <class T>
std::size_t topk_scratch_bytes(const TopkParams<T>& p);
// T = float or Bf16. Enqueues, never waits.
template <class T>
void launch_topk(const TopkParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
