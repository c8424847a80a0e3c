// top_p of several sequences on the GPU: up to 64 calls in a launch of unions, and as many in one
// of thresholds, all of whose rows take as many blocks.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/top_p/params.h"

namespace versieve::kernels {

// What launch_top_p_together needs of context.scratch.
std::size_t top_p_together_scratch_bytes(std::span<const TopPParams<float>> calls);
// Calls of which none reads what another writes, of any lengths, rows and lists; each has the bits
// that it has alone. Enqueues, never waits. REQUIRES: as top_p_cpu, of each.
void launch_top_p_together(std::span<const TopPParams<float>> calls, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
