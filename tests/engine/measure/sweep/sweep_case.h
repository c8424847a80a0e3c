// Sweeps that are built in and small ones, expanded to their points.
#pragma once

#include <algorithm>
#include <string>

#include "engine/measure/sweep/sweep.h"

namespace versieve::engine {

inline SweepPlan built_in(const std::string& name, Backend backend = Backend::kCuda) {
  return sweep_from_json(std::string(built_in_sweep(name)), name, backend);
}

inline SweepPlan small(const std::string& grids) {
  return sweep_from_json(R"({"name": "small", "grids": )" + grids + "}", "small", Backend::kCuda);
}

inline std::int64_t count_of(const SweepPlan& plan, WorkloadKind kind) {
  return std::count_if(plan.points.begin(), plan.points.end(),
                       [&](const PointKey& key) { return key.workload == kind; });
}

}  // namespace versieve::engine
