#include "engine/measure/sweep/ranges.h"

#include <algorithm>

#include "model/words/assert.h"
#include "profiler/metric_group.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {
namespace {

RangeMeasurement* find(const std::string& path, std::vector<RangeMeasurement>& ranges) {
  const auto found = std::find_if(ranges.begin(), ranges.end(), [&](const RangeMeasurement& range) {
    return range.path == path;
  });
  return found != ranges.end() ? &*found : nullptr;
}

// The launches of one path in one repetition.
using Launches = std::vector<const profiler::RangeSample*>;

Launches launches_of(const std::string& path,
                     const std::vector<profiler::RangeSample>& repetition) {
  Launches launches;
  for (const profiler::RangeSample& sample : repetition) {
    if (sample.path == path) {
      launches.push_back(&sample);
    }
  }
  return launches;
}

// What a launch weighs in an average of rates: its duration, or 1 where none was counted.
double weight_of(const profiler::RangeSample& launch) {
  for (const CounterValue& counter : launch.counters) {
    if (counter.metric == profiler::kGpuDuration && counter.value && *counter.value > 0.0) {
      return *counter.value;
    }
  }
  return 1.0;
}

// Counter `index` of a path in one repetition.
CounterValue joined(const Launches& launches, std::size_t index) {
  CounterValue result = launches.front()->counters[index];
  double total = 0.0;
  double weights = 0.0;
  const bool sum = profiler::adds_up(result.metric);
  for (const profiler::RangeSample* launch : launches) {
    const CounterValue& counter = launch->counters[index];
    if (!counter.value) {
      return counter;
    }
    const double weight = sum ? 1.0 : weight_of(*launch);
    total += weight * *counter.value;
    weights += weight;
  }
  result.value = sum ? total : total / weights;
  return result;
}

// The median of the repetitions that have a value; with none, the first one's reason.
CounterValue median_counter(const std::vector<Launches>& repetitions, std::size_t index) {
  std::vector<double> values;
  CounterValue first = joined(repetitions.front(), index);
  for (const Launches& launches : repetitions) {
    const CounterValue value = joined(launches, index);
    if (value.value) {
      values.push_back(*value.value);
    }
  }
  if (!values.empty()) {
    first.value = profiler::median_of(values);
    first.status = CounterStatus::kOk;
  }
  return first;
}

}  // namespace

std::vector<RangeMeasurement> ranges_of(const LaunchLog& log) {
  std::vector<RangeMeasurement> ranges;
  for (const LaunchLog::Launch& launch : log.launches()) {
    RangeMeasurement* range = find(launch.path, ranges);
    if (range == nullptr) {
      ranges.push_back({.path = launch.path});
      range = &ranges.back();
    }
    range->launches += 1;
    range->predicted += launch.predicted;
  }
  return ranges;
}

void add_trace(const std::vector<std::vector<profiler::TracedRange>>& repetitions,
               std::vector<RangeMeasurement>& ranges) {
  for (RangeMeasurement& range : ranges) {
    for (const std::vector<profiler::TracedRange>& repetition : repetitions) {
      double time_ns = 0.0;
      std::int64_t seen = 0;
      for (const profiler::TracedRange& traced : repetition) {
        if (traced.path == range.path) {
          time_ns += traced.kernel_ns;
          seen += traced.kernel_ns > 0.0;
        }
      }
      if (2 * seen >= range.launches) {
        range.gpu_time_ns.push_back(time_ns);
      }
    }
  }
}

void leave_common(const std::vector<std::vector<profiler::RangeSample>>& repetitions,
                  std::vector<RangeMeasurement>& ranges) {
  std::erase_if(ranges, [&](const RangeMeasurement& range) {
    return std::any_of(repetitions.begin(), repetitions.end(), [&](const auto& repetition) {
      return launches_of(range.path, repetition).empty();
    });
  });
}

void add_counters(const std::vector<std::vector<profiler::RangeSample>>& repetitions,
                  std::vector<RangeMeasurement>& ranges) {
  VERSIEVE_ASSERT(!repetitions.empty(), "counters come from at least one repetition");
  for (RangeMeasurement& range : ranges) {
    std::vector<Launches> launches;
    for (const std::vector<profiler::RangeSample>& repetition : repetitions) {
      launches.push_back(launches_of(range.path, repetition));
      VERSIEVE_ASSERT(!launches.back().empty(), "every repetition launches the same kernels");
    }
    for (std::size_t i = 0; i < launches.front().front()->counters.size(); ++i) {
      range.counters.push_back(median_counter(launches, i));
    }
  }
}

void add_absent_counters(CounterStatus status, std::vector<RangeMeasurement>& ranges) {
  for (RangeMeasurement& range : ranges) {
    range.counters = profiler::absent_counters(profiler::core_metrics(), status);
  }
}

}  // namespace versieve::engine
