// The search for the cost model's parameters: residuals of bytes and of times in log space, one
// stage each.
#pragma once

#include <vector>

#include "engine/analyse/fit/fit_points.h"
#include "model/cost/fitted_model.h"

namespace versieve::engine {

struct Effort {
  int iterations = 60;  // at most, in each stage
  int threads = 1;      // which never show in a result
};

// Parameters from the points, begun at `start`. Estimates with intervals: Gauss-Newton covariance
// in log parameters, clustered by point, 90 %.
std::vector<ParameterEstimate> search_parameters(const std::vector<const FitPoint*>& points,
                                                 const HardwareSpec& hardware,
                                                 const CostParameters& start, Effort effort);

// The parameters of these kinds alone, begun at the estimates; all others stay as they are.
using KindSet = std::array<bool, kLaunchKindCount>;
void search_kinds(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware,
                  const KindSet& kinds, Effort effort, std::vector<ParameterEstimate>& estimates);

// Cost of each kind of launch in a step; a launch's phases count with it.
struct KindCost {
  double time_us = 0.0;     // of all its launches, gaps left out
  double dram_bytes = 0.0;  // as counters would count them
  double read_bytes = 0.0;  // of them
  std::array<double, kTrafficTermCount> term_bytes{};
  bool present = false;
};
using KindCosts = std::array<KindCost, kLaunchKindCount>;
KindCosts cost_by_kind(const StepWork& work, const HardwareSpec& hardware,
                       const CostParameters& parameters, const RunConditions& conditions);

}  // namespace versieve::engine
