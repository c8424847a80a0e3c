// layer_map on the CPU: the reference.
#pragma once

#include "kernels/layer_map/params.h"

namespace versieve::kernels {

// REQUIRES: m, n >= 1; no NaN and no +infinity.
void layer_map_cpu(const LayerMapParams& p);

}  // namespace versieve::kernels
