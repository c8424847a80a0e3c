// Which counters are collected, and what a returned number must satisfy to be believed. The core
// group is one pass on GH100 (and on GB100; two on GA100 and AD102), so nothing is ever replayed.
#pragma once

#include <string>
#include <vector>

#include "model/words/range_counters.h"

namespace versieve::profiler {

inline constexpr const char* kGpuDuration = "gpu__time_duration.sum";

// DRAM bytes, L2 sectors and request hits, L1, SM cycles and clock, occupancy, tensor pipe.
std::vector<std::string> core_metrics();

// How a counter of several launches becomes one: sums add, rates are averaged by duration.
bool adds_up(const std::string& metric);

// The number under its rules: NaN has status kNan, a negative or infinite number or a percentage
// over 100 kOutOfRange; neither has a value.
CounterValue checked_counter(const std::string& metric, double value);

// No numbers, and why: every metric with that status.
std::vector<CounterValue> absent_counters(const std::vector<std::string>& metrics,
                                          CounterStatus status);

}  // namespace versieve::profiler
