// What a plan's table says of itself: the fit and machine that its times are of, the pair whose
// tokens they are, the launches that they hold, and whose numbers each of these is.
#pragma once

#include "model/plan/planner.h"

namespace versieve {

class CellPricer;
class SystemPricer;

// Before tuples are priced.
void describe_plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
                   const PlanOptions& options, const CellPricer& prices, PlanTable& table);
// Of a table whose tuples are ranked: whose numbers of chains they rest on.
void describe_chains(const FittedModel& fit, const PlanOptions& options,
                     const SystemPricer& systems, PlanTable& table);

}  // namespace versieve
