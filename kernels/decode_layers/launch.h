// decode_layers on CUDA.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <memory>

#include "kernels/common/launch_context.h"
#include "kernels/decode_layers/params.h"

namespace versieve::kernels {

// What launches of one Ops keep between them: a table of the layers and the packets' memory.
class DecodeWorkspace;
std::shared_ptr<DecodeWorkspace> make_decode_workspace();

// Whether one persistent launch computes it: heads of 64 or 128, at most 8 query heads a KV head,
// blocks of 4 and compressed tokens of 2 strides, matrices whose blocks fit the chip at once
// (model/launches/decode_layers.h); reuse layers take the blocks of the newest layer that routes.
bool decode_layers_takes(const DecodeLayersParams<Bf16>& p);

// Makes ready what a launch of these params needs: may allocate, upload and wait. Does nothing
// where it was ready. REQUIRES: decode_layers_takes(p); not while a graph is captured. Throws
// Error(kEnvironment) if the GPU has no memory left or its driver no tensor maps.
void prepare_decode_layers(DecodeWorkspace& workspace, const DecodeLayersParams<Bf16>& p,
                           const LaunchContext& context);
// Enqueues, never waits. REQUIRES: prepared for these params.
void launch_decode_layers(DecodeWorkspace& workspace, const DecodeLayersParams<Bf16>& p,
                          const LaunchContext& context);

}  // namespace versieve::kernels
#endif
