// What a cell of a planner's table says of its class, whose ranks hold the baselines too
// (candidates of every class, so that a plan is never worse than they are): the class's own best
// tuple, and the baseline that is ahead of it.
#pragma once

#include <cstdint>
#include <string>

#include "model/plan/planner.h"

namespace versieve {

struct ClassChoice {
  const PlanEntry* best = nullptr;  // of the class's own tuples, of the baselines where it has none
  const PlanEntry* ahead = nullptr;  // the baseline that is ranked first in its place
};

// Without entries both null.
ClassChoice class_choice(const PlanTable& table, std::int64_t bucket, PrecisionClass precision);
// "below the fixed baseline, 3476 tokens/s". REQUIRES: a baseline's entry.
std::string below_text(const PlanEntry& baseline);
// "the best of its own is below the fixed baseline, 3476 tokens/s: specattn …, 2959 tokens/s".
// REQUIRES: a baseline that is ahead.
std::string own_text(const ClassChoice& choice);

}  // namespace versieve
