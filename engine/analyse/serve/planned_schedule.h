// A serving schedule of a planner table with several numbers of requests at a time: its Strict
// drafts, cell by cell, with the planner's tokens and break-even.
#pragma once

#include "engine/analyse/serve/serving_schedule.h"
#include "model/plan/planner.h"

namespace versieve::engine {

// Requests beyond those of the table, and beyond what its machine's memory holds, have no cell.
// Throws Error(kAnswerNo) for a table without class Strict or without entries of it, and for one
// whose draft is a model of its own, of which no engine's schedule is written.
// REQUIRES: has_concurrency(table).
ServingSchedule planned_schedule(const PlanTable& table);

}  // namespace versieve::engine
