// What a target's own timed steps say beyond a fit to everybody's: a correction of its predicted
// steps, and how well it knows those that were not measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/residual_fit.h"
#include "model/cost/fitted_model.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

struct OwnStep {
  Residual residual;  // of its time to what the fit predicts
  std::string tuple;  // strategy
  std::int64_t context_len = 0;
};

// The correction alone.
ResidualField field_of_steps(const std::vector<OwnStep>& steps);
// |log(predicted / measured)| that 90 % of the steps stay under of which the correction has seen no
// step of the same tuple; none of fewer than ten.
std::optional<double> unseen_width(const std::vector<OwnStep>& steps);
// A correction learned from these steps on top of the fit's own. Where there are ten or more, the
// width that the target's steps need of which the correction has seen no step of the same tuple
// takes the place of the fit's, in the ranges of contexts that they lie in. Returns what was added.
ResidualField learn_own_steps(const std::vector<OwnStep>& steps, FittedModel& fit);

// The same from the fit's own measured steps of that target, with a draft of as many tokens.
// Returns how many they are; of none the fit stays as it is.
std::int64_t use_own_steps(const LlmShape& target, const DraftShape& draft, FittedModel& fit);

}  // namespace versieve::engine
