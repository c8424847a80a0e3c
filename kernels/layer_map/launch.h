// layer_map on CUDA: one warp, columns in turn; offline work, written to be right.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/layer_map/params.h"

namespace versieve::kernels {

// What launch_layer_map needs of context.scratch.
std::size_t layer_map_scratch_bytes(const LayerMapParams& p);
// Enqueues, never waits. REQUIRES: as layer_map_cpu, and fewer than 2^31 cells.
void launch_layer_map(const LayerMapParams& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
