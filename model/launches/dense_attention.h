// Attention of a target with a dense cache as StepShape::dense says, with what selects: dense, ReSA
// (Rectified Sparse Attention), SpecAttn or a token-level indexer.
#pragma once

#include "model/launches/launch_work.h"
#include "model/launches/step_shape.h"

namespace versieve {

void add_dense_attention(const StepShape& shape, double layers, StepWork& out);

}  // namespace versieve
