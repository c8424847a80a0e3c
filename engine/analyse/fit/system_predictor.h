// What a fit says of a point of the other systems: its launches by the closed form, corrected by
// what the points of the fit's own machine said of them.
#pragma once

#include "engine/analyse/fit/fit_points.h"
#include "model/cost/residual_field.h"

namespace versieve::engine {

struct SystemPrediction {
  double time_us = 0.0;
  double dram_bytes = 0.0;  // of all launches that counters see; closed form
};

// `field`: of attention over a dense cache, top-k and samplers alone, and of steps whose attention
// is so corrected. `point`: of system_points.
SystemPrediction predict_system(const FitPoint& point, const HardwareSpec& hardware,
                                const CostParameters& values, const ResidualField& field);

}  // namespace versieve::engine
