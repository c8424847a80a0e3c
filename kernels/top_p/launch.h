// top_p on CUDA: a cluster a row bisects over weights held in shared memory, then one launch forms
// the union.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/top_p/params.h"

namespace versieve::kernels {

// What launch_top_p needs of context.scratch.
std::size_t top_p_scratch_bytes(const TopPParams<float>& p);
// Enqueues, never waits. REQUIRES: as top_p_cpu.
void launch_top_p(const TopPParams<float>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
