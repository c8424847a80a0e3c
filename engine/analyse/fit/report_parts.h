// Parts of a fit's page: figures and tables as HTML, and its plots.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/svg_plot.h"

namespace versieve::engine {

std::string percent(std::optional<double> value);  // "-" for none
std::string figure(std::optional<double> value);   // the same
// Cells are escaped; the first column is left-aligned.
std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows);
std::string label_of(const ComparedPoint& point);
std::vector<Plot> plots_against_measured(const FitReport& report);
std::vector<Plot> plots_of_residuals(const FitReport& report);

}  // namespace versieve::engine
