#include "profiler/timing.h"

#include <chrono>

namespace versieve::profiler {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TimingResult collect_samples(const std::function<double()>& sample_ns, const TimingPlan& plan,
                             const SecondsClock& clock) {
  const double warm_up_start = clock();
  for (std::int64_t i = 0; i < plan.warm_up_samples || clock() - warm_up_start < plan.warm_up_s;
       ++i) {
    sample_ns();
  }
  TimingResult result;
  StopRule rule(plan.stop);
  const double start = clock();
  while (true) {
    result.samples_ns.push_back(sample_ns());
    const std::optional<std::string> reason = rule.reason_after(result.samples_ns, clock() - start);
    if (reason) {
      result.stop_reason = *reason;
      return result;
    }
  }
}

double host_time_ns(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace versieve::profiler
