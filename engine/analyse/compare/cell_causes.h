// Why a cell's winner is another one, or yields another rate: which inputs moved, and what of them
// the winners felt.
#pragma once

#include "engine/analyse/compare/table_comparison.h"

namespace versieve::engine {

// Of the whole tables.
std::vector<MovedInput> moved_inputs(const PlanTable& before, const PlanTable& after);

// Fills in `because` and `why` of a cell whose winners and change are known.
void explain(ComparedCell& cell, const PlanTable& before, const PlanTable& after,
             const std::vector<MovedInput>& moved);

// One bucket of a table, by its bounds; -1: the table has none.
std::int64_t bucket_index(const PlanTable& table, const ContextBucket& bucket);
bool is_within_noise(const PlanEntry& a, const PlanEntry& b);

}  // namespace versieve::engine
