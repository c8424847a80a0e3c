// decode_layers from the ops that one launch replaces: what its answers are, on any Ops.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// Every op of the layers in the engine's order, fused form, with memory of its own for what lies
// between them. Waits for the device where it allocates.
template <class T>
void decode_layers_in_parts(Ops<T>& ops, const DecodeLayersParams<T>& p);

}  // namespace versieve::kernels
