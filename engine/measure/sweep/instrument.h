// Measures one piece of repeatable work by the protocol: time, trace and counters, each in
// repetitions of their own. On a GPU with events, graphs and CUPTI; on the CPU by the host's clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/common/launch_observer.h"
#include "model/words/measurement.h"
#include "model/words/step_trace.h"
#include "profiler/counter_access.h"
#include "profiler/timing.h"

namespace versieve::engine {

// The work: `run(set)` enqueues one whole run on buffer set 0 ... sets - 1.
struct RepeatableWork {
  std::int64_t sets = 1;
  // The work asks the device between its launches: no graph can hold it, and the host's clock is
  // the one that counts.
  bool host_timed = false;
  std::function<void(std::int64_t set)> run;
  // host_timed: what the samples time if it is not run(0), the same work in another form (a
  // recording); returns once it has run. May be empty.
  std::function<void()> run_timed;
  std::int64_t timed_runs = 1;  // that run_timed makes; a sample is of one
  // Each run goes on where the last one ended, so that some launch what others do not.
  bool moves_on = false;
  // Room for so many runs in a row, from the start; false where there is none. Empty: always there.
  std::function<bool(std::int64_t runs)> make_room;
  std::function<void()> synchronize;
  std::function<void(kernels::LaunchObserver*)> observe;
  // Takes one run launch by launch, as it is timed, where that can be traced; empty: nobody asks.
  std::function<void(StepTrace)> on_trace;
  // What `run_timed` replays, enqueued launch by launch, so that its launches lie in ranges; empty:
  // `run` is that.
  std::function<void()> run_led;
};

struct MeasurePlan {
  profiler::TimingPlan timing;
  std::int64_t trace_repetitions = 0;
  std::int64_t counter_repetitions = 0;
  double energy_s = 0.0;  // of runs one after another whose energy is counted; 0: not
  CacheState cache_state = CacheState::kAsIs;  // warm: set 0 alone; cold_rotate: all sets in turn
  LaunchMode launch = LaunchMode::kStream;
};

class Instrument {
 public:
  virtual ~Instrument() = default;
  // The stream for kernels::make_cuda_ops, null on the CPU.
  virtual void* stream() = 0;
  // Bytes that must pass between two uses of a buffer for it to be cold.
  virtual std::int64_t cold_bytes() const = 0;
  // Fills time_ns, stop_reason, reliability and ranges; of energy a range of its own where the
  // device counts it.
  virtual void measure(const RepeatableWork& work, const MeasurePlan& plan,
                       PointMeasurement& point) = 0;
};

std::unique_ptr<Instrument> make_host_instrument();
// Throws Error(kEnvironment) without a GPU. Without access no counters are collected, and each
// range says so; a trace that cannot be had is left out.
std::unique_ptr<Instrument> make_gpu_instrument(const profiler::CounterAccess& access);

}  // namespace versieve::engine
