// Plans of nsa-1b on an H200, for tests of the planner.
#pragma once

#include "model/plan/planner.h"
#include "tests/support/planned.h"

namespace versieve::test {

inline PlanTable planned(const FittedModel& fit, const PlanOptions& options = {}) {
  return plan(fit, hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), options);
}

// The first bucket of a plan, whose baselines and provenance are those of a whole one.
inline PlanOptions first_bucket() {
  PlanOptions options;
  options.buckets = {default_buckets().front()};
  return options;
}
inline PlanOptions first_baselines() {
  PlanOptions options = first_bucket();
  options.classes = {PrecisionClass::kStrict};
  options.schedules = {"F*"};
  return options;
}

}  // namespace versieve::test
