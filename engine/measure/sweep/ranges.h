// From launches to a point's ranges: what was launched, counted and traced, joined by path. Pure
// functions of what the profiler returned.
#pragma once

#include <string>
#include <vector>

#include "engine/measure/sweep/observe.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// One range a path, in the order of first launch, with launches and predicted bytes added up.
std::vector<RangeMeasurement> ranges_of(const LaunchLog& log);

// Each repetition's kernel time of each path. A repetition of whose launches fewer than half ran a
// kernel that could be seen (a recording replays the rest) says nothing of a path.
void add_trace(const std::vector<std::vector<profiler::TracedRange>>& repetitions,
               std::vector<RangeMeasurement>& ranges);

// Leaves the paths that every repetition launched, of work whose runs differ in a few.
void leave_common(const std::vector<std::vector<profiler::RangeSample>>& repetitions,
                  std::vector<RangeMeasurement>& ranges);
// The median over repetitions of each path's counters: within a repetition sums add over a path's
// launches and rates are averaged by duration. A counter that one launch lacks is lacking.
void add_counters(const std::vector<std::vector<profiler::RangeSample>>& repetitions,
                  std::vector<RangeMeasurement>& ranges);

// No counters, and why.
void add_absent_counters(CounterStatus status, std::vector<RangeMeasurement>& ranges);

}  // namespace versieve::engine
