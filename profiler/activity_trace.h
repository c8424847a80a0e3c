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

// One kernel, copy or memset of one repetition, by the GPU's clock.
struct TracedWork {
  std::string kernel;      // readable_kernel_name(); "memset", "memcpy DtoH"
  std::string range;       // the innermost that was open when it was launched; empty: none
  std::int64_t turn = -1;  // ActivityTrace::turn() that was under way; -1: none
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::int64_t stream = 0;   // CUPTI's number
  std::int64_t blocks = 0;   // of the grid; 0: a copy or a memset
  std::int64_t threads = 0;  // of a block
  // Of the call that launched it: later calls have higher ones, all nodes of a graph's launch one.
  std::uint32_t call = 0;
  std::uint64_t graph_node = 0;  // of a graph's launch, in the order of capture; 0: no graph's
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
  // What is launched from here to the next turn() or end() is of that turn, whatever its range:
  // what a graph launches has no range of its own, as its work was captured before.
  void turn(std::int64_t number);
  // The ranges in the order they were pushed. Throws Error(kEnvironment) when records were lost.
  std::vector<TracedRange> end();
  // All work of the repetition that end() closed, in the order in which it was launched. Throws
  // Error(kEnvironment) where CUPTI has no time for some.
  std::vector<TracedWork> work() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace versieve::profiler
