// index_keys and index_query of several sequences on the GPU: one launch for up to 64 calls.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/index_keys/params.h"

namespace versieve::kernels {

// T = float or Bf16. Calls of one index shape, of which none reads what another writes. Enqueue,
// never wait, need no scratch.
template <class T>
void launch_index_keys_together(std::span<const IndexKeysParams<T>> calls,
                                const LaunchContext& context);
template <class T>
void launch_index_query_together(std::span<const IndexQueryParams<T>> calls,
                                 const LaunchContext& context);

}  // namespace versieve::kernels
#endif
