// topk on CUDA: every variant, every shape.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/topk/params.h"

namespace versieve::kernels {

// What launch_topk needs of context.scratch.
template <class T>
std::size_t topk_scratch_bytes(const TopkParams<T>& p);
// T = float or Bf16. Rows too long for a cluster (select.h) are sorted, whatever the variant.
// Enqueues, never waits.
template <class T>
void launch_topk(const TopkParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
