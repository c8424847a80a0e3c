// What a measured point says, whatever it is of: times, bytes and the ranges of its launches.
#pragma once

#include <functional>
#include <string_view>

#include "engine/analyse/fit/fit_points.h"

namespace versieve::engine {

using KindOfPath = std::function<std::optional<LaunchKind>(std::string_view)>;

bool has_range(const PointMeasurement& m, const char* path);
// A step of an engine whose projections, activation or norms were launches of their own. No model
// of those launches is kept, and one of today's would misprice it.
bool is_of_separate_launches(const PointMeasurement& m);
inline constexpr const char* kSeparateLaunches =
    "a step whose projections or norms were launches of their own; the engine has joined them";
// A step of one token, launch by launch, that the engine of today would run in one launch.
bool is_superseded_by_one_launch(const PointMeasurement& m);
inline constexpr const char* kLaunchByLaunch =
    "a plain step launched layer by layer; others of it ran all layers in one launch";
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
