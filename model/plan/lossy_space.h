// Every choice that a plan may hold and that costs quality, each by the strategy that is measured
// in its place: out of the grids that the planner goes over, so that what is planned and what is
// measured are one list.
#pragma once

#include <string>
#include <vector>

#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve {

// Of a schedule and of ReSA plain decoding; of an approximate group d6k8n64, of SpecAttn and of
// sigmoids the nearer of d3k1n4 and d7k1n8: what they lose depends on what is drafted, and a plan
// names the draft that was measured (LossPrice::price_of). REQUIRES: it is not Strict.
Strategy measured_for(const Strategy& strategy);

// Schedules, groups, groups with schedules; then sigmoids, ReSA and SpecAttn. `schedules`: those
// of the plan, F* among them or not.
std::vector<Strategy> lossy_space(const LlmShape& target,
                                  const std::vector<std::string>& schedules);

}  // namespace versieve
