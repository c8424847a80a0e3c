// A planner table as what a batch of this engine does step by step: of the cell of a request's
// context and the requests that run, the tuple that promises most by the server's guard
// (engine/measure/door/guard/serving_guard.h).
#pragma once

#include <memory>

#include "engine/run/batch/tuple_plan.h"
#include "model/plan/planner.h"

namespace versieve::engine {

// Tuples of that class, and plain decoding, which `refusal` lets run. Where the table plans for
// several numbers of requests, one stands for those since the one before it, and the last for more.
// Throws Error(kAnswerNo) where the table has no such tuple. Outlives the table.
std::shared_ptr<const TuplePlan> planned_batch(const PlanTable& table, PrecisionClass precision,
                                               const TupleRefusal& refusal);

}  // namespace versieve::engine
