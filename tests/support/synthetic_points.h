// Measurements that never happened, for tests of the fit and the planner only: the cost model's own
// answers at planted parameters with noise, in the form in which a sweep stores them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/cost/cost_model.h"
#include "model/words/hardware.h"
#include "model/words/measurement.h"

namespace versieve::synthetic {

struct Plan {
  CostParameters parameters = initial_parameters();
  double noise = 0.02;  // standard deviation of log(measured / true)
  std::uint64_t seed = 1;
  double time_factor = 1.0;  // on attention times beyond `factor_above`: a law that the model lacks
  std::int64_t factor_above = 1 << 30;
  // Of attention points; fused points come as refresh and reuse layers in groups of 1 and 8, and
  // plain steps run their layers in one launch.
  NsaForm form = NsaForm::kVanilla;
  // Of step points: how the engine cuts them, and whether their times are of recordings ("graph").
  LaunchMode step_launch = LaunchMode::kStream;
  const char* model = "nsa-1b";
  bool device_ranges = false;  // step points' ranges are of the device's own steps
};

inline const HardwareSpec& h200() {
  return hardware_by_key("h200-sxm");
}
inline std::vector<PointMeasurement> joined(std::vector<PointMeasurement> a,
                                            const std::vector<PointMeasurement>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Attention points over contexts 1K-64K x queries 1-128 x overlaps of nsa-1b, steps over tree
// shapes of the plan's model, in bf16.
std::vector<PointMeasurement> attention_points(const Plan& plan, const HardwareSpec& hardware);
std::vector<PointMeasurement> step_points(const Plan& plan, const HardwareSpec& hardware);
// Tuples of a trained pair whose acceptance follows the positional model with these parameters.
std::vector<PointMeasurement> acceptance_points(double first, double siblings, double decay);

}  // namespace versieve::synthetic
