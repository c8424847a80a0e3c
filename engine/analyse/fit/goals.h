// What a fit must reach to be believed, and whether it does: one row a goal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/cost_fit.h"

namespace versieve::engine {

struct Goal {
  std::string what;      // "DRAM bytes, held out"
  std::string wanted;    // "3 % / 10 %": median / 90th percentile
  std::string measured;  // the same of this fit, with the points that it is of
  bool met = false;
};

// Goals that the data can judge; a quick fit leaves no regimes out and has no rows of them.
std::vector<Goal> goals_of(const FitReport& report);

}  // namespace versieve::engine
