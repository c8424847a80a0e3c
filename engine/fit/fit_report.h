// A fit's validation as one self-contained HTML page: predicted against measured, residuals by
// axis, left-out regimes, coverage map, the twenty worst points, parameters. Nothing is loaded from
// elsewhere and nothing runs.
#pragma once

#include <string>

#include "engine/fit/cost_fit.h"

namespace versieve::engine {

std::string fit_html(const FitReport& report);

}  // namespace versieve::engine
