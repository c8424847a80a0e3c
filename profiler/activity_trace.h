// How long each kernel ran, by the GPU's own clock: CUPTI activity records of concurrent kernels,
// attributed to the range that launched them. Never in one repetition with counters.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace versieve::profiler {

// One range of one repetition: its kernels' times add up, and all ranges' to the time at which any
// kernel ran (busy_time.h): what overlaps counts once.
struct TracedRange {
  std::string path;
  std::int64_t kernel_count = 0;
  double kernel_ns = 0.0;
};

class ActivityTrace {
 public:
  // Why no trace can be had here, or an empty text.
  static std::string missing_because();
  // One at a time in a process. Throws Error(kEnvironment) where tracing is not possible.
  ActivityTrace();
  ~ActivityTrace();
  ActivityTrace(const ActivityTrace&) = delete;
  ActivityTrace& operator=(const ActivityTrace&) = delete;

  // One repetition: begin, push and pop around each launch, end. No synchronisation is needed
  // between ranges; end() waits for the device.
  void begin();
  void push(const std::string& path);
  void pop();
  // The ranges in the order they were pushed. Throws Error(kEnvironment) when records were lost.
  std::vector<TracedRange> end();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace versieve::profiler
