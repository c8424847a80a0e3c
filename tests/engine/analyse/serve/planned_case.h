// A planner table with requests at a time, for tests of what is made of it.
#pragma once

#include "model/plan/concurrency.h"
#include "tests/support/planned.h"

namespace versieve::test {

inline PlanTable planned_table(PlanOptions options = {.classes = {PrecisionClass::kStrict}}) {
  options.buckets = {{0, 4096}, {4096, 8192}};
  options.schedules = {"F*"};
  options.concurrency = {1, 8, 64};
  return plan(synthetic::fitted_by_hand(0.8, 0.9, true), hardware_by_key("h200-sxm"),
              named_llm_shape("nsa-1b"), options);
}

}  // namespace versieve::test
