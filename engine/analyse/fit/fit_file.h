// A fit as text for people, as one JSON object (printed by `fit --json`, written by `fit --out`)
// and read back for planning. Missing figures are null, never zero.
#pragma once

#include <string>

#include "engine/analyse/fit/cost_fit.h"

namespace versieve::engine {

inline constexpr const char* kFitFormat = "versieve fit";
inline constexpr std::int64_t kFitSchema = 8;  // 8: `geometry` of steps, which are of several

std::string fit_json(const FitReport& report);
std::string fit_text(const FitReport& report);
// Throws Error(kBadInput) for a file that is not a fit or of another schema.
FittedModel read_fit(const std::string& path);

}  // namespace versieve::engine
