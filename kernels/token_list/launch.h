// token_list on CUDA: two launches, so that lists need not pass through the host.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/token_list/params.h"

namespace versieve::kernels {

// What launch_token_list needs of context.scratch.
std::size_t token_list_scratch_bytes(const TokenListParams& p);
// Enqueues, never waits. REQUIRES: as token_list_cpu.
void launch_token_list(const TokenListParams& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
