// The GPU's measurements. One point in turn: a plain run that loads modules and grows scratch, the
// timing from a graph over all buffer sets, the trace, the counters.
#include <algorithm>
#include <optional>

#include "engine/sweep/instrument.h"
#include "engine/sweep/ranges.h"
#include "model/error.h"
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

// A step of 32 layers launches some 700 kernels.
constexpr std::int64_t kMaxRanges = 2048;
// Runs of warm work in one graph, so that the events' own cost vanishes.
constexpr std::int64_t kWarmRuns = 8;

class GpuInstrument final : public Instrument {
 public:
  explicit GpuInstrument(const profiler::CounterAccess& access)
      : access_(access), timer_(stream_), state_(profiler::describe_gpu()->pci_bus_id) {}

  void* stream() override { return stream_.handle(); }
  std::int64_t cold_bytes() const override { return 3 * profiler::gpu_l2_bytes(); }
  void measure(const RepeatableWork& work, const MeasurePlan& plan,
               PointMeasurement& point) override {
    turn_ = 0;
    point.ranges = log_launches(work);
    measure_time(work, plan, point);
    measure_trace(work, plan, point);
    measure_counters(work, plan, point);
  }

 private:
  std::vector<RangeMeasurement> log_launches(const RepeatableWork& work);
  void measure_time(const RepeatableWork& work, const MeasurePlan& plan, PointMeasurement& point);
  void measure_trace(const RepeatableWork& work, const MeasurePlan& plan, PointMeasurement& point);
  void measure_counters(const RepeatableWork& work, const MeasurePlan& plan,
                        PointMeasurement& point);
  std::vector<profiler::RangeSample> count_once(const RepeatableWork& work,
                                                const MeasurePlan& plan);
  // One run in the declared cache state, on the set whose last use is longest ago.
  void run_next(const RepeatableWork& work, const MeasurePlan& plan);

  profiler::CounterAccess access_;
  GpuStream stream_;
  GpuTimer timer_;
  profiler::GpuStateReader state_;
  std::optional<profiler::RangeCounters> counters_;  // made at the first use
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
  if (plan.cache_state == "cold_rotate") {
    for (std::int64_t set = 0; set < work.sets; ++set) {
      sets.push_back(set);
    }
    return sets;
  }
  const bool many = plan.cache_state == "warm";
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
  if (plan.launch == "graph" && !work.host_timed) {
    graph.emplace(stream_, enqueue);
  }
  const auto sample_ns = [&] {
    if (plan.cache_state == "cold_flush") {
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
    return time_ns / static_cast<double>(sets.size());
  };
  const std::uint64_t before = state_.clock_events();
  const profiler::TimingResult time = profiler::collect_samples(sample_ns, plan.timing);
  const std::uint64_t after = state_.clock_events();
  point.time_ns = time.samples_ns;
  point.stop_reason = time.stop_reason;
  point.reliability = profiler::is_throttled(before | after) ? "throttled" : "ok";
}

void GpuInstrument::run_next(const RepeatableWork& work, const MeasurePlan& plan) {
  const bool rotate = plan.cache_state == "cold_rotate";
  if (plan.cache_state == "cold_flush") {
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

void GpuInstrument::measure_trace(const RepeatableWork& work, const MeasurePlan& plan,
                                  PointMeasurement& point) {
  if (plan.trace_repetitions == 0 || !profiler::ActivityTrace::missing_because().empty()) {
    return;
  }
  std::vector<std::vector<profiler::TracedRange>> repetitions;
  profiler::ActivityTrace trace;
  for (std::int64_t i = 0; i < plan.trace_repetitions; ++i) {
    TraceObserver observer(trace);
    trace.begin();
    {
      const Watch watch(work, observer);
      run_next(work, plan);
    }
    repetitions.push_back(trace.end());
    observer.rethrow();
  }
  add_trace(repetitions, point.ranges);
}

std::vector<profiler::RangeSample> GpuInstrument::count_once(const RepeatableWork& work,
                                                             const MeasurePlan& plan) {
  CounterObserver observer(*counters_, [this] { stream_.synchronize(); });
  counters_->begin();
  {
    const Watch watch(work, observer);
    run_next(work, plan);
  }
  stream_.synchronize();
  observer.rethrow();
  return counters_->end();
}

void GpuInstrument::measure_counters(const RepeatableWork& work, const MeasurePlan& plan,
                                     PointMeasurement& point) {
  if (!access_.ok() || plan.counter_repetitions == 0) {
    add_absent_counters(access_.ok() ? "off" : counter_status(access_.state), point.ranges);
    return;
  }
  std::vector<std::vector<profiler::RangeSample>> repetitions;
  try {
    if (!counters_) {
      counters_.emplace(profiler::core_metrics(), kMaxRanges);
    }
    for (std::int64_t i = 0; i < plan.counter_repetitions; ++i) {
      repetitions.push_back(count_once(work, plan));
    }
    counters_->release();
  } catch (...) {
    counters_.reset();  // a half-done repetition is given up
    throw;
  }
  add_counters(repetitions, point.ranges);
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
