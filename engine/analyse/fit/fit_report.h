// A fit's validation as one self-contained HTML page: predicted against measured, residuals by
// axis, left-out regimes, coverage map, the twenty worst points, parameters. Nothing is loaded from
// elsewhere and nothing runs.
#pragma once

#include <string>
#include <vector>

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/svg_plot.h"

namespace versieve::engine {

std::string fit_html(const FitReport& report);
// Its two halves, for who draws plots himself (the app): tables and text as HTML, and the plots
// (predicted against measured, then residuals of held-out points by axis).
std::string fit_tables_html(const FitReport& report);
std::vector<Plot> fit_plots(const FitReport& report);

}  // namespace versieve::engine
