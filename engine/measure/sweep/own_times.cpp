#include "engine/measure/sweep/own_times.h"

#include "profiler/busy_time.h"

namespace versieve::engine {

std::vector<double> own_times_ns(const StepTrace& trace) {
  std::vector<profiler::KernelSpan> spans;
  for (const TracedLaunch& launch : trace.launches) {
    const std::uint64_t start = static_cast<std::uint64_t>(launch.start_ns);
    spans.push_back({start, start + static_cast<std::uint64_t>(launch.duration_ns)});
  }
  return profiler::busy_times(spans);
}

}  // namespace versieve::engine
