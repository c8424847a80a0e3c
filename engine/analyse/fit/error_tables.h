// Errors of points that a fit had not seen, by regime and by kind of launch.
#pragma once

#include <vector>

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/predictor.h"

namespace versieve::engine {

// The bytes that a ratio can be held against: kLeastJudgedBytes or more, of collections that had
// warmed up.
std::optional<double> judged_bytes(const FitPoint& point);
std::vector<RegimeError> errors_by_regime(const std::vector<const FitPoint*>& points,
                                          const HardwareSpec& hardware,
                                          const Calibration& calibration);
std::vector<TermError> errors_by_launch(const std::vector<const FitPoint*>& points,
                                        const HardwareSpec& hardware,
                                        const Calibration& calibration);

}  // namespace versieve::engine
