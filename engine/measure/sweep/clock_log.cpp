#include "engine/measure/sweep/clock_log.h"

namespace versieve::engine {

std::optional<ClockLine> ClockLog::line_of(const PointMeasurement& point) {
  const bool throttled = point.reliability == Reliability::kThrottled;
  if (throttled) {
    ++throttled_;
    if (seen_.find(point.clock_events) == std::string::npos) {
      seen_ += (seen_.empty() ? "" : "; ") + point.clock_events;
    }
  }
  if (point.clock_events.empty() || point.clock_events == last_) {
    return {};
  }
  last_ = point.clock_events;
  return ClockLine{throttled ? "warning" : "info",
                   "from " + std::string(name_of(point.key.workload)) + " " + point.key.strategy +
                       " L " + std::to_string(point.key.context_len) + " on: clock held down by: " +
                       point.clock_events + (throttled ? "; points are marked throttled" : "")};
}

std::string ClockLog::summary() const {
  if (throttled_ == 0) {
    return {};
  }
  return std::to_string(throttled_) + " points were measured while the GPU slowed down (" + seen_ +
         "): they are marked throttled, and a fit leaves them out.";
}

}  // namespace versieve::engine
