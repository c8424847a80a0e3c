// What a measured point says, whatever it is of: times, bytes and the ranges of its launches.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/analyse/fit/fit_points.h"

namespace versieve::engine {

using KindOfPath = std::function<std::optional<LaunchKind>(std::string_view)>;

bool has_range(const PointMeasurement& m, const char* path);
// Why a point is of launches that the engine no longer makes, so that no model of them is kept: a
// sentence that names them and says to measure again. Empty for the engine's own. Throws
// Error(kBadInput) for a model that nobody knows.
std::string outdated_because(const PointMeasurement& m);
std::string outdated_because(const PointMeasurement& m, const LlmShape& target);
// Why nobody can tell what the time is of: no launch is stored, which every measured point has.
// Empty if one is.
std::string untold_because(const PointMeasurement& m);
// A point of another program's record.
inline constexpr const char* kImported = "imported: measured by another program, not by us";
// A point of the simulator.
inline constexpr const char* kSimulated = "simulated: a prediction, not a measurement";
// A step of a pair whose draft runs all levels in one launch (engine/analyse/fit/apart_fit.h).
bool is_step_of_small_pair(const PointMeasurement& m);
// A time, or a range's time or bytes.
bool says_anything(const PointMeasurement& m);
// Fills all but key, shape and conditions; ranges whose path has no kind are left out.
void add_measurements(const PointMeasurement& m, const KindOfPath& kind_of, FitPoint& p);

}  // namespace versieve::engine
