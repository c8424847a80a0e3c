// The rules of a diagnosis, one function each (README.md says where each comes from).
#pragma once

#include "engine/analyse/diagnose/diagnosis.h"

namespace versieve::engine {

Finding first_token(const DiagnosisInput& input);
Finding later_tokens(const DiagnosisInput& input);
Finding draft_length(const DiagnosisInput& input);
Finding long_context(const DiagnosisInput& input);
Finding step_cost(const DiagnosisInput& input);
Finding tree_against_chain(const DiagnosisInput& input);
Finding batch_crossover(const DiagnosisInput& input);
Finding changed_text(const DiagnosisInput& input);
Finding certain_acceptance(const DiagnosisInput& input);

}  // namespace versieve::engine
