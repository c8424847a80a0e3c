// The cost model as a fit leaves it: parameters, and what residuals say beyond the closed form. All
// validation goes through predict(), which knows of a point only what a planner knows.
#pragma once

#include <vector>

#include "engine/analyse/fit/cost_search.h"
#include "engine/analyse/fit/fit_points.h"
#include "engine/analyse/fit/residual_fit.h"
#include "model/cost/fitted_model.h"

namespace versieve::engine {

struct Calibration {
  std::vector<ParameterEstimate> estimates;  // [kParameterCount]
  CostParameters values{};
  ResidualField attention_time;  // of a layer's attention
  ResidualField step_time;       // of a step, its attention corrected
};

Calibration calibration_of(const FittedModel& model);

// Begun at `start`.
Calibration calibrate(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware,
                      const CostParameters& start, Effort effort);

// A fit of another machine carried to this one (`hardware` has the scale of its rates), and what
// these points say of the difference: further families of the fields. Parameters stay.
Calibration corrected(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware,
                      const Calibration& prior);

struct Prediction {
  double time_us = 0.0;
  double closed_form_us = 0.0;  // without the fields
  double dram_bytes = 0.0;      // as counters would count them; closed form
  double read_bytes = 0.0;      // of them
};
Prediction predict(const FitPoint& point, const HardwareSpec& hardware,
                   const Calibration& calibration);

// What predictions lack of the times of the steps among these points.
ResidualField step_residuals(const std::vector<const FitPoint*>& points,
                             const HardwareSpec& hardware, const Calibration& calibration,
                             std::size_t fewest = kFewestOfFamily);

// The point's launches by what a planner knows, attention corrected by the field.
PointWork planned_work(const FitPoint& point, const Calibration& calibration);

}  // namespace versieve::engine
