// The GPU's measurements. One point in turn: a plain run that loads modules and grows scratch, the
// timing from a graph over all buffer sets, the trace, the counters.
#include <algorithm>
#include <optional>

#include "engine/measure/sweep/instrument.h"
#include "engine/measure/sweep/ranges.h"
#include "engine/measure/sweep/traced_step.h"
#include "model/words/assert.h"
#include "model/words/cache_passes.h"
#include "model/words/error.h"
#include "model/words/range_counters.h"
#include "profiler/activity_trace.h"
#include "profiler/environment.h"
#include "profiler/gpu_timer.h"
#include "profiler/metric_group.h"
#include "profiler/nvml.h"
#include "profiler/range_counters.h"

namespace versieve::engine {
namespace {

using profiler::GpuGraph;
using profiler::GpuStream;
using profiler::GpuTimer;

// Repetitions share a collection, whose opening and closing cost more than the work of a layer: as
// many as fit. A step of 32 layers launches some 700 kernels; a layer's attention at most five.
constexpr std::int64_t kMaxRanges = 2048;
constexpr std::int64_t kFewRanges = 64;
// Runs of which one is told launch by launch: one before it, one behind it, and two more, since one
// may begin a recording anew.
constexpr std::int64_t kTracedRuns = 5;
constexpr std::int64_t kEnergyWarmUp = 3;  // runs

class GpuInstrument final : public Instrument {
 public:
  explicit GpuInstrument(const profiler::CounterAccess& access)
      : access_(access), timer_(stream_), state_(profiler::describe_gpu()->pci_bus_id) {}

  void* stream() override { return stream_.handle(); }
  std::int64_t cold_bytes() const override { return kColdPasses * profiler::gpu_l2_bytes(); }
  void measure(const RepeatableWork& work, const MeasurePlan& plan,
               PointMeasurement& point) override {
    turn_ = 0;
    point.ranges = log_launches(work);
    measure_time(work, plan, point);
    measure_trace(work, plan, point);
    measure_counters(work, plan, point);
    measure_energy(work, plan, point);
  }

 private:
  std::vector<RangeMeasurement> log_launches(const RepeatableWork& work);
  void measure_time(const RepeatableWork& work, const MeasurePlan& plan, PointMeasurement& point);
  void measure_trace(const RepeatableWork& work, const MeasurePlan& plan, PointMeasurement& point);
  // One run as it is timed, launch by launch, after the same was traced within ranges.
  void trace_launches(const RepeatableWork& work, profiler::ActivityTrace& trace);
  void measure_counters(const RepeatableWork& work, const MeasurePlan& plan,
                        PointMeasurement& point);
  void measure_energy(const RepeatableWork& work, const MeasurePlan& plan, PointMeasurement& point);
  // `repetitions` in one collection.
  std::vector<std::vector<profiler::RangeSample>> count(const RepeatableWork& work,
                                                        const MeasurePlan& plan,
                                                        std::int64_t repetitions);
  void make_counters(std::int64_t ranges);
  // One run in the declared cache state, on the set whose last use is longest ago.
  void run_next(const RepeatableWork& work, const MeasurePlan& plan);

  profiler::CounterAccess access_;
  GpuStream stream_;
  GpuTimer timer_;
  profiler::GpuStateReader state_;
  std::optional<profiler::RangeCounters> counters_;  // made at the first use
  std::int64_t counter_ranges_ = 0;                  // that a collection of theirs can hold
  std::int64_t turn_ = 0;
};

// Watches the work's launches for as long as it lives.
class Watch {
 public:
  Watch(const RepeatableWork& work, kernels::LaunchObserver& observer) : work_(work) {
    work_.observe(&observer);
  }
  ~Watch() { work_.observe(nullptr); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  const RepeatableWork& work_;
};

// The sets that one timed sample runs through.
std::vector<std::int64_t> sets_of_sample(const RepeatableWork& work, const MeasurePlan& plan) {
  std::vector<std::int64_t> sets;
  if (plan.cache_state == CacheState::kColdRotate) {
    for (std::int64_t set = 0; set < work.sets; ++set) {
      sets.push_back(set);
    }
    return sets;
  }
  const bool many = plan.cache_state == CacheState::kWarm;
  sets.assign(many ? static_cast<std::size_t>(kWarmRuns) : 1, 0);
  return sets;
}

void GpuInstrument::measure_time(const RepeatableWork& work, const MeasurePlan& plan,
                                 PointMeasurement& point) {
  const std::vector<std::int64_t> sets = sets_of_sample(work, plan);
  const auto enqueue = [&] {
    for (const std::int64_t set : sets) {
      work.run(set);
    }
  };
  std::optional<GpuGraph> graph;
  if (plan.launch == LaunchMode::kGraph && !work.host_timed) {
    graph.emplace(stream_, enqueue);
  }
  const auto sample_ns = [&] {
    if (plan.cache_state == CacheState::kColdFlush) {
      timer_.flush_l2();
      stream_.synchronize();
    }
    const double time_ns = work.host_timed
                               ? profiler::host_time_ns([&] {
                                   if (work.run_timed) {
                                     work.run_timed();
                                   } else {
                                     enqueue();
                                     work.synchronize();
                                   }
                                 })
                               : timer_.time_ns([&] { graph ? graph->launch() : enqueue(); });
    return time_ns / static_cast<double>(std::ssize(sets) * work.timed_runs);
  };
  const std::uint64_t before = state_.clock_events();
  const profiler::TimingResult time = profiler::collect_samples(sample_ns, plan.timing);
  const std::uint64_t after = state_.clock_events();
  point.time_ns = time.samples_ns;
  point.stop_reason = time.stop_reason;
  point.reliability =
      profiler::is_throttled(before | after) ? Reliability::kThrottled : Reliability::kOk;
  point.clock_events = profiler::clock_event_names(before | after);
}

void GpuInstrument::run_next(const RepeatableWork& work, const MeasurePlan& plan) {
  const bool rotate = plan.cache_state == CacheState::kColdRotate;
  if (plan.cache_state == CacheState::kColdFlush) {
    timer_.flush_l2();
    stream_.synchronize();
  }
  work.run(rotate ? turn_++ % work.sets : 0);
}

std::vector<RangeMeasurement> GpuInstrument::log_launches(const RepeatableWork& work) {
  LaunchLog log;
  {
    const Watch watch(work, log);
    work.run(0);
  }
  stream_.synchronize();
  return ranges_of(log);
}

// A collection's launches cut into its repetitions, which launch the same kernels.
template <class Range>
std::vector<std::vector<Range>> in_repetitions(const std::vector<Range>& ranges,
                                               std::int64_t repetitions) {
  const std::size_t each = ranges.size() / static_cast<std::size_t>(repetitions);
  VERSIEVE_ASSERT(each > 0 && each * static_cast<std::size_t>(repetitions) == ranges.size(),
                  "every repetition launches the same kernels");
  std::vector<std::vector<Range>> cut;
  for (std::size_t first = 0; first < ranges.size(); first += each) {
    cut.emplace_back(ranges.begin() + static_cast<std::ptrdiff_t>(first),
                     ranges.begin() + static_cast<std::ptrdiff_t>(first + each));
  }
  return cut;
}

void GpuInstrument::measure_trace(const RepeatableWork& work, const MeasurePlan& plan,
                                  PointMeasurement& point) {
  if (plan.trace_repetitions == 0 || !profiler::ActivityTrace::missing_because().empty()) {
    return;
  }
  profiler::ActivityTrace trace;
  TraceObserver observer(trace);
  trace.begin();
  {
    const Watch watch(work, observer);
    for (std::int64_t i = 0; i < plan.trace_repetitions; ++i) {
      run_next(work, plan);
    }
  }
  const std::vector<profiler::TracedRange> ranges = trace.end();
  observer.rethrow();
  add_trace(in_repetitions(ranges, plan.trace_repetitions), point.ranges);
  if (work.on_trace) {
    trace_launches(work, trace);
  }
}

void GpuInstrument::trace_launches(const RepeatableWork& work, profiler::ActivityTrace& trace) {
  const auto traced = [&](std::int64_t runs, const std::function<void()>& run) {
    TraceObserver observer(trace);
    trace.begin();
    {
      const Watch watch(work, observer);
      for (std::int64_t i = 0; i < runs; ++i) {
        trace.turn(i);
        run();
      }
    }
    trace.end();
    observer.rethrow();
    return trace.work();
  };
  const std::function<void()> run = [&work] { work.run(0); };
  const std::vector<profiler::TracedWork> led = traced(1, work.run_led ? work.run_led : run);
  const std::vector<profiler::TracedWork> runs =
      traced(kTracedRuns, work.run_timed ? work.run_timed : run);
  if (std::optional<StepTrace> step = traced_step(runs, led)) {
    work.on_trace(std::move(*step));
  }
}

void GpuInstrument::make_counters(std::int64_t ranges) {
  const std::int64_t wanted = ranges <= kFewRanges ? kFewRanges : kMaxRanges;
  if (!counters_ || counter_ranges_ < wanted) {
    counters_.emplace(profiler::core_metrics(), wanted);
    counter_ranges_ = wanted;
  }
}

std::vector<std::vector<profiler::RangeSample>> GpuInstrument::count(const RepeatableWork& work,
                                                                     const MeasurePlan& plan,
                                                                     std::int64_t repetitions) {
  CounterObserver observer(*counters_, [this] { stream_.synchronize(); });
  counters_->begin();
  // Taking the counters empties L2 and fills it with lines to be written back: what is counted
  // first would find neither warm data nor a clean cache.
  for (const std::int64_t set : sets_of_sample(work, plan)) {
    work.run(set);
  }
  turn_ = 0;  // the set that the uncounted runs used first
  {
    const Watch watch(work, observer);
    for (std::int64_t i = 0; i < repetitions; ++i) {
      run_next(work, plan);
    }
  }
  stream_.synchronize();
  observer.rethrow();
  return in_repetitions(counters_->end(), repetitions);
}

void GpuInstrument::measure_counters(const RepeatableWork& work, const MeasurePlan& plan,
                                     PointMeasurement& point) {
  if (!access_.ok() || plan.counter_repetitions == 0) {
    add_absent_counters(
        access_.ok() ? CounterStatus::kOff : profiler::counter_status(access_.state), point.ranges);
    return;
  }
  std::int64_t launches = 0;
  for (const RangeMeasurement& range : point.ranges) {
    launches += range.launches;
  }
  std::vector<std::vector<profiler::RangeSample>> repetitions;
  try {
    make_counters(launches * plan.counter_repetitions);
    const std::int64_t most = std::max<std::int64_t>(1, counter_ranges_ / launches);
    while (static_cast<std::int64_t>(repetitions.size()) < plan.counter_repetitions) {
      const std::int64_t left =
          plan.counter_repetitions - static_cast<std::int64_t>(repetitions.size());
      for (auto& repetition : count(work, plan, std::min(most, left))) {
        repetitions.push_back(std::move(repetition));
      }
    }
    counters_->release();
  } catch (...) {
    counters_.reset();  // a half-done repetition is given up
    counter_ranges_ = 0;
    throw;
  }
  if (work.moves_on) {
    leave_common(repetitions, point.ranges);
  }
  add_counters(repetitions, point.ranges);
}

// Runs one after another, as the samples were taken, for as long as the plan wants.
void GpuInstrument::measure_energy(const RepeatableWork& work, const MeasurePlan& plan,
                                   PointMeasurement& point) {
  const auto runs = static_cast<std::int64_t>(
      plan.energy_s * 1e9 / std::max(1.0, profiler::summary_of(point.time_ns).median));
  if (runs < 1 || !state_.energy_j() || (work.make_room && !work.make_room(runs + kEnergyWarmUp))) {
    return;
  }
  const auto run = [&](std::int64_t times) {
    for (std::int64_t i = 0; i < times; ++i) {
      run_next(work, plan);
    }
    work.synchronize();
  };
  run(kEnergyWarmUp);
  const std::optional<double> before = state_.energy_j();
  run(runs);
  const std::optional<double> after = state_.energy_j();
  if (before && after && *after > *before) {
    point.ranges.push_back(
        {.path = kEnergyRange,
         .launches = runs,
         .predicted = {},
         .gpu_time_ns = {},
         .counters = {
             {kEnergyJoules, (*after - *before) / static_cast<double>(runs), CounterStatus::kOk}}});
  }
}

}  // namespace

std::unique_ptr<Instrument> make_gpu_instrument(const profiler::CounterAccess& access) {
  const std::string missing = profiler::gpu_missing_because();
  if (!missing.empty()) {
    throw Error(ExitCode::kEnvironment, missing);
  }
  return std::make_unique<GpuInstrument>(access);
}

}  // namespace versieve::engine
