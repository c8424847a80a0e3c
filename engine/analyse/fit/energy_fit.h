// What steps take of energy (model/cost/energy_law.h), from points of many requests whose power was
// sampled: three numbers by least squares of relative errors, none below 0. Predicted bytes and
// operations are those that a plan prices; times are the measured ones.
#pragma once

#include "engine/analyse/fit/cost_fit.h"

namespace versieve::engine {

// Of fewer points, or of fewer numbers of requests, nothing is fitted.
inline constexpr std::size_t kFewestEnergyPoints = 6;

// Adds to the report. REQUIRES: the report's model is fitted to all else.
void fit_energy(const std::vector<PointMeasurement>& measured, const HardwareSpec& hardware,
                FitReport& report);

}  // namespace versieve::engine
