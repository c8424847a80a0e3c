// The CPU's measurements: wall-clock times; counters are unsupported and say so.
#include "engine/measure/sweep/instrument.h"
#include "engine/measure/sweep/ranges.h"

namespace versieve::engine {
namespace {

class HostInstrument final : public Instrument {
 public:
  void* stream() override { return nullptr; }
  std::int64_t cold_bytes() const override { return 0; }
  void measure(const RepeatableWork& work, const MeasurePlan& plan,
               PointMeasurement& point) override {
    LaunchLog log;
    work.observe(&log);
    work.run(0);
    work.observe(nullptr);
    std::int64_t turn = 0;
    const auto run_once = [&] {
      if (work.run_timed) {
        work.run_timed();
        return;
      }
      work.run(turn++ % work.sets);
      work.synchronize();
    };
    const profiler::TimingResult time = profiler::collect_samples(
        [&] { return profiler::host_time_ns(run_once) / static_cast<double>(work.timed_runs); },
        plan.timing);
    point.time_ns = time.samples_ns;
    point.stop_reason = time.stop_reason;
    point.ranges = ranges_of(log);
    add_absent_counters(CounterStatus::kUnsupported, point.ranges);
  }
};

}  // namespace

std::unique_ptr<Instrument> make_host_instrument() {
  return std::make_unique<HostInstrument>();
}

}  // namespace versieve::engine
