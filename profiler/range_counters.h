// Hardware counters of named ranges: a CUPTI range profiler session with user ranges, where one
// metric group of exactly one pass is collected, so that nothing is ever run twice. Ranges are
// flat. While a collection is on, the GPU clocks low: times taken then mean nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/words/measurement.h"

namespace versieve::profiler {

// One range of one repetition.
struct RangeSample {
  std::string path;
  std::vector<CounterValue> counters;  // in the order of the session's metrics
};

class RangeCounters {
 public:
  // For the current device. Throws Error(kEnvironment): no access, an unknown metric, a group that
  // needs more than one pass.
  RangeCounters(std::vector<std::string> metrics, std::int64_t max_ranges);
  ~RangeCounters();
  RangeCounters(const RangeCounters&) = delete;
  RangeCounters& operator=(const RangeCounters&) = delete;

  // One repetition: begin, then push and pop around each launch, then end. The caller synchronises
  // the stream before push and before pop, so that a range holds its own work and all of it.
  void begin();
  void push(const std::string& path);
  void pop();
  // The ranges in the order they were pushed; paths may repeat. Throws Error(kEnvironment) when a
  // range was dropped.
  std::vector<RangeSample> end();

  // Gives the counters back, and the GPU its clocks; begin() takes them again.
  void release();

  const std::string& chip() const;
  const std::vector<std::string>& metrics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace versieve::profiler
