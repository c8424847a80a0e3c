// token_list of several sequences on the GPU: up to 64 calls in the two launches of one.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/token_list/params.h"

namespace versieve::kernels {

// What launch_token_list_together needs of context.scratch.
std::size_t token_list_together_scratch_bytes(std::span<const TokenListParams> calls);
// Calls of which none reads what another writes, of any lengths, chunks and numbers of lists; each
// gives what it gives alone. Enqueues, never waits. REQUIRES: as token_list_cpu, of each.
void launch_token_list_together(std::span<const TokenListParams> calls,
                                const LaunchContext& context);

}  // namespace versieve::kernels
#endif
