// topk on CUDA, variant `sort`: the CUB radix sort of whole rows.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/topk/params.h"

namespace versieve::kernels {

template <class T>
std::size_t topk_sort_scratch_bytes(const TopkParams<T>& p);
// Enqueues, never waits.
template <class T>
void launch_topk_sort(const TopkParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
