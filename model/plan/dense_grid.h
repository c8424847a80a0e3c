// The tuples of a dense target that a plan goes over: plain decoding and its draft's chains and
// trees over a cache that is read whole, and those of the other systems that the pair can run.
#pragma once

#include <string>
#include <vector>

#include "model/plan/planner.h"

namespace versieve {

// Why the pair cannot draft so, or is not planned to, or an empty text.
std::string not_drafted_because(const Strategy& strategy, const PlanOptions& options);
// Throws Error(kUsage) if the baseline cannot run.
Candidates dense_candidates(const LlmShape& target, const PlanOptions& options);
// system_space of that target: SpecAttn needs a draft model, sigmoids a draft.
std::vector<Strategy> systems_of(PrecisionClass precision, const LlmShape& target,
                                 const PlanOptions& options);
// What a plan of that target ranks in one range and class, within its limit of losses and where
// evidence prices it; both baselines are among them. Empty where nothing is priced. REQUIRES: not
// Approx-sampling, whose tuples rank where their sampler gains.
std::vector<Strategy> ranked_tuples(const FittedModel& fit, const LlmShape& target,
                                    const PlanOptions& options, const ContextBucket& bucket,
                                    PrecisionClass precision);

}  // namespace versieve
