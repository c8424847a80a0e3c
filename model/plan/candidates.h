// The tuples of a space that a plan prices, whatever the target: those that nothing speaks against,
// the rest counted by reason.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/plan/planner.h"

namespace versieve {

// `refusal`: why a tuple is not planned, or an empty text. `fixed` is among the runnable ones, too.
Candidates counted_candidates(const std::vector<Strategy>& space, const Strategy& fixed,
                              const std::function<std::string(const Strategy&)>& refusal);

}  // namespace versieve
