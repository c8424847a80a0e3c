// Steps of a pair so small that its draft runs all levels in one launch
// (model/launches/draft_levels.h), beside steps of others. They say whether a fit to the others
// carries to it, and move nothing of theirs: the launch that only they have is fitted to its own
// ranges, and what the closed form misses is a family of residuals of its own.
#pragma once

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/fit_parts.h"

namespace versieve::engine {

inline constexpr std::int64_t kApartParts = 6;  // to all points, and without each fold

// Adds to the report: errors before and after, parameters of draft_levels, residuals. Does nothing
// without such points.
void fit_apart(const std::vector<FitPoint>& points, const HardwareSpec& hardware, FitParts& parts,
               FitReport& report);

}  // namespace versieve::engine
