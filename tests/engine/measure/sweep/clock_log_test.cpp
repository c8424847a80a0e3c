// Clock events of a campaign's points: a line where they change, a sentence at the end; and that a
// slowdown seen by an instrument reaches the point.
#include "engine/measure/sweep/clock_log.h"

#include <catch2/catch.hpp>

#include "engine/measure/sweep/instrument.h"
#include "engine/measure/sweep/machine_point.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PointMeasurement point_of(const std::string& events, const std::string& reliability) {
  PointMeasurement point{
      .key = {.workload = WorkloadKind::kMachine, .strategy = "machine:copy", .context_len = 64}};
  point.clock_events = events;
  point.reliability = reliability_of(reliability);
  return point;
}

// Measures nothing and finds the GPU slowed down by heat.
class HotInstrument final : public Instrument {
 public:
  void* stream() override { return nullptr; }
  std::int64_t cold_bytes() const override { return 0; }
  void measure(const RepeatableWork& work, const MeasurePlan&, PointMeasurement& point) override {
    work.run(0);
    point.time_ns = {1.0};
    point.reliability = Reliability::kThrottled;
    point.clock_events = "hw_thermal_slowdown";
  }
};

}  // namespace

TEST_CASE("a line is written where the reasons for a lower clock change") {
  ClockLog log;
  CHECK(!log.line_of(point_of("none", "ok")));
  const auto capped = log.line_of(point_of("sw_power_cap", "ok"));
  REQUIRE(capped);
  CHECK(capped->severity == "info");
  CHECK(capped->text == "from machine machine:copy L 64 on: clock held down by: sw_power_cap");
  CHECK(!log.line_of(point_of("sw_power_cap", "ok")));
  CHECK(!log.line_of(point_of("", "ok")));  // the CPU's points: nobody asked
  CHECK(log.summary().empty());
  const auto hot = log.line_of(point_of("hw_slowdown", "throttled"));
  REQUIRE(hot);
  CHECK(hot->severity == "warning");
  CHECK(!log.line_of(point_of("hw_slowdown", "throttled")));
  CHECK(log.line_of(point_of("none", "ok")));
  CHECK(log.throttled() == 2);
  CHECK(
      log.summary() ==
      "2 points were measured while the GPU slowed down (hw_slowdown): they are marked throttled, "
      "and a fit leaves them out.");
}

TEST_CASE("a slowdown that the instrument saw is the point's") {
  HotInstrument hot;
  const SweepPlan plan;
  const auto runner = make_machine_runner<float>(plan, hot, false, 1);
  const PointMeasurement point = runner->run({.workload = WorkloadKind::kMachine,
                                              .strategy = "machine:copy",
                                              .dtype = Dtype::kF32,
                                              .cache_state = CacheState::kWarm,
                                              .context_len = 1,
                                              .num_queries = 1});
  CHECK(point.reliability == Reliability::kThrottled);
  ClockLog log;
  REQUIRE(log.line_of(point));
  CHECK(log.throttled() == 1);
}
