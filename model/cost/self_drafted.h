// A step of a target that drafts for itself (Rectified Sparse Attention, appendix B): steps of one
// token over blocks that it chooses, then one dense pass over the chain, which the host leads
// (engine/run/speculate/self_draft.h).
#pragma once

#include "model/cost/residual_field.h"
#include "model/launches/launch_work.h"
#include "model/launches/step_shape.h"

namespace versieve {

// All its launches. `step`: as asked_step composes it; its `dense` says which blocks the drafting
// steps read. `field`: what timed layers and steps of one token or chain say beyond the closed
// form.
StepWork self_drafted_work(const StepShape& step, const ResidualField& field);

}  // namespace versieve
