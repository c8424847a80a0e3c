// What a step launches, kernel by kernel, as the engine enqueues it: one linear layer for q, k, v
// and gates, rotary together with the rows of the cache, one linear layer for gate and up with
// SwiGLU within. A step that the host leads asks it for each level of the draft; a recorded one has
// the launches of kernels/draft_tree in their place, and sizes that are bounds.
#pragma once

#include "model/launches/launch_work.h"
#include "model/launches/nsa_shape.h"
#include "model/launches/step_shape.h"

namespace versieve {

// The launches of one layer's attention (a reuse layer runs no importance and no selection).
void add_attention(const traffic::NsaVerifyShape& shape, NsaForm form, bool reuse, double layers,
                   StepWork& out);
// The whole step: target, draft, acceptance, commit. `growth` as in distinct_blocks.
void add_step(const StepShape& shape, double growth, StepWork& out);

}  // namespace versieve
