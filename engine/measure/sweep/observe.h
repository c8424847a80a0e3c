// Where kernels and profiler meet: the kernels' launch observer bound to the profiler's ranges and
// trace. Neither knows of the other.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/common/launch_observer.h"
#include "profiler/activity_trace.h"
#include "profiler/range_counters.h"

namespace versieve::engine {

// What was launched, in order, with its predicted bytes and flops.
class LaunchLog final : public kernels::LaunchObserver {
 public:
  struct Launch {
    std::string path;
    Traffic predicted;
  };
  void launch_begins(const char* name, const Traffic& traffic) override {
    launches_.push_back({name, traffic});
  }
  void launch_ends(const char*) override {}
  const std::vector<Launch>& launches() const { return launches_; }

 private:
  std::vector<Launch> launches_;
};

// A launch's end is seen from a destructor, which must not throw: what went wrong there waits for
// rethrow(), which the caller asks after each repetition.
class ThrowingObserver : public kernels::LaunchObserver {
 public:
  void rethrow() const {
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 protected:
  template <class Work>
  void keep_error(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      error_ = error_ ? error_ : std::current_exception();
    }
  }

 private:
  std::exception_ptr error_;
};

// Each launch a counter range of its own: the stream is idle before and after it.
class CounterObserver final : public ThrowingObserver {
 public:
  CounterObserver(profiler::RangeCounters& counters, std::function<void()> synchronize)
      : counters_(counters), synchronize_(std::move(synchronize)) {}
  void launch_begins(const char* name, const Traffic&) override {
    synchronize_();
    counters_.push(name);
  }
  void launch_ends(const char*) override {
    keep_error([this] {
      synchronize_();
      counters_.pop();
    });
  }

 private:
  profiler::RangeCounters& counters_;
  std::function<void()> synchronize_;
};

class TraceObserver final : public ThrowingObserver {
 public:
  explicit TraceObserver(profiler::ActivityTrace& trace) : trace_(trace) {}
  void launch_begins(const char* name, const Traffic&) override { trace_.push(name); }
  void launch_ends(const char*) override {
    keep_error([this] { trace_.pop(); });
  }

 private:
  profiler::ActivityTrace& trace_;
};

}  // namespace versieve::engine
