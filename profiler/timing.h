// The timing protocol, whatever the clock: warm up, sample, stop by the rule, keep every sample.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/sample_statistics.h"

namespace versieve::profiler {

struct TimingPlan {
  double warm_up_s = 0.05;  // at least that long, and at least warm_up_samples
  std::int64_t warm_up_samples = 3;
  StopPlan stop;
};

struct TimingResult {
  std::vector<double> samples_ns;
  std::string stop_reason;  // target, stalled, timeout, fixed
};

// Seconds on a clock that never goes back.
using SecondsClock = std::function<double()>;
double steady_seconds();

// `sample_ns` runs the work once and returns how long it took. The clock rules warm-up and limit.
TimingResult collect_samples(const std::function<double()>& sample_ns, const TimingPlan& plan,
                             const SecondsClock& clock = steady_seconds);

// How long one call takes on the host's clock, in ns.
double host_time_ns(const std::function<void()>& work);

}  // namespace versieve::profiler
