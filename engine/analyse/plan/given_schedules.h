// Schedules of refresh and reuse layers as somebody gives them to a plan: as text, or as a file
// that `versieve calibrate` has written. The command and the app read them alike.
#pragma once

#include <string>
#include <vector>

#include "model/words/llm_shape.h"

namespace versieve::engine {

// F*, and in the place of the usual patterns those that are given (F* alone: nothing that reuses);
// of none the usual. Throws
// Error(kUsage) for one that the target cannot run, Error(kBadInput) for a file that is none.
std::vector<std::string> planned_schedules(const std::vector<std::string>& given,
                                           const LlmShape& target);

}  // namespace versieve::engine
