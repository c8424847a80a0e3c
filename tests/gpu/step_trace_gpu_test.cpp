// One measured step launch by launch on a GPU: as many launches as the engine launched, known
// names, times that agree with the time that the device was busy.
#include <catch2/catch.hpp>
#include <map>
#include <utility>

#include "engine/measure/sweep/campaign.h"
#include "profiler/activity_trace.h"
#include "tests/gpu/device.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

struct Measured {
  PointMeasurement point;
  StepDetail detail;
};

std::vector<Measured> measured(const std::string& grid) {
  const SweepPlan plan = sweep_from_json(
      R"({"name": "test", "trace_repetitions": 2, "counter_repetitions": 0,
          "timing": {"warm_up_s": 0.01, "fixed_samples": 9}, "grids": [)" +
          grid + "]}",
      "test", Backend::kCuda);
  std::vector<Measured> all;
  StepDetail next;
  run_campaign(
      plan, plan.points, open_campaign(plan, Backend::kCuda),
      {.threads = 1, .on_detail = [&](StepDetail detail) { next = std::move(detail); }},
      [&](const PointMeasurement& point) {
        all.push_back({point, std::exchange(next, {})});
      },
      [](const CampaignProgress&) {});
  return all;
}

std::map<std::string, std::int64_t> kernels_by_range(const StepTrace& trace) {
  std::map<std::string, std::int64_t> counts;
  for (const TracedLaunch& launch : trace.launches) {
    counts[launch.range] += launch.blocks > 0;
  }
  return counts;
}

}  // namespace

TEST_CASE("a step's trace has the launches that the engine launched, with names and times") {
  if (versieve::testing::no_gpu()) {
    return;
  }
  if (const std::string why = profiler::ActivityTrace::missing_because(); !why.empty()) {
    WARN(why);
    return;
  }
  const std::vector<Measured> all = measured(
      R"({"workload": "step", "model": "nsa-1b", "context_len": 4096, "dtype": "bf16",
          "strategy": ["nsa/ar", "nsa/d4k4n16/dfs/c4e/F*", "nsa/d4k4n16/bfs/c1/(FR)*"]},
         {"workload": "step", "model": "nsa-1b", "context_len": 4096, "dtype": "bf16",
          "launch": "stream", "strategy": "nsa/d4k4n16/dfs/c4e/F*"},
         {"workload": "step", "model": "demo", "context_len": 4096, "dtype": "bf16",
          "strategy": "nsa/d6k8n64/bfs/c4e/F*"},
         {"workload": "step", "model": "dense-1b", "context_len": 4096, "dtype": "bf16",
          "strategy": "dense/ar"})");
  REQUIRE(all.size() == 6);
  for (const Measured& m : all) {
    CAPTURE(m.point.key.strategy, name_of(m.point.key.launch), m.point.reason);
    REQUIRE(m.point.status == PointStatus::kOk);
    REQUIRE(m.detail.trace.has_value());
    const StepTrace& trace = *m.detail.trace;
    CHECK(trace.replayed == (m.point.key.launch == LaunchMode::kGraph));
    const std::map<std::string, std::int64_t> found = kernels_by_range(trace);
    std::int64_t unknown = 0;
    // What is launched step by step is the trace's own form; a recorded step of nsa-1b drafts and
    // accepts by other launches than the one that the host leads, whose ranges the point has.
    if (m.point.key.launch == LaunchMode::kStream || m.point.key.model == "demo") {
      for (const RangeMeasurement& range : m.point.ranges) {
        CAPTURE(range.path, range.launches);
        const auto at = found.find(range.path);
        CHECK(at != found.end());
        CHECK((at == found.end() || at->second >= range.launches));  // a launch is a kernel or more
      }
    }
    double sum_ns = 0.0;
    for (const TracedLaunch& launch : trace.launches) {
      CHECK(!launch.kernel.empty());
      CHECK(launch.kernel.find("_Z") == std::string::npos);
      CHECK(launch.start_ns >= 0);
      CHECK(launch.duration_ns >= 0);
      unknown += launch.blocks > 0 && launch.range.empty();
      CHECK((launch.blocks == 0 || launch.evidence == RangeEvidence::kLaunched ||
             launch.evidence == RangeEvidence::kOrder));
      sum_ns += static_cast<double>(launch.duration_ns);
    }
    const double busy_ns = static_cast<double>(trace.busy_ns());
    const double length_ns = static_cast<double>(trace.length_ns());
    CHECK(unknown == 0);
    CHECK(busy_ns <= sum_ns);
    CHECK(busy_ns <= length_ns);
    CHECK(busy_ns > 0.3 * length_ns);
    double by_range_ns = 0.0;
    for (const RangeMeasurement& range : m.point.ranges) {
      by_range_ns += range.gpu_time_ns.back();
    }
    if (!trace.replayed || m.point.key.model == "demo") {
      CHECK(busy_ns == Approx(by_range_ns).epsilon(0.25));  // another repetition of the same work
    }
    if (trace.period_ns) {
      CHECK(*trace.period_ns >= 0.95 * length_ns);
    }
    WARN(m.point.key.strategy << " " << name_of(m.point.key.launch) << ": " << trace.launches.size()
                              << " launches, " << unknown << " of no known range; busy "
                              << busy_ns / 1e3 << " us of " << length_ns / 1e3 << ", period "
                              << trace.period_ns.value_or(0.0) / 1e3 << ", timed "
                              << m.point.time_ns.front() / 1e3 << ", durations " << sum_ns / 1e3);
    CHECK(m.detail.choice.has_value() == (m.point.key.num_queries > 1));
  }
}
