// Launches, traces and counters joined by path: literal in, literal out.
#include <catch2/catch.hpp>

#include "engine/measure/sweep/ranges.h"
#include "profiler/metric_group.h"

using namespace versieve;
using namespace versieve::engine;
using profiler::RangeSample;
using profiler::TracedRange;

namespace {

Traffic reads(double bytes) {
  Traffic traffic;
  traffic.read(TrafficTerm::kWeights, bytes);
  return traffic;
}

LaunchLog logged(const std::vector<std::pair<const char*, double>>& launches) {
  LaunchLog log;
  for (const auto& [name, bytes] : launches) {
    log.launch_begins(name, reads(bytes));
    log.launch_ends(name);
  }
  return log;
}

RangeSample sample(const std::string& path, double bytes, double duration, double percent) {
  const char* rate = "sm__warps_active.avg.pct_of_peak_sustained_active";
  return {path,
          {{kDramBytesRead, bytes, CounterStatus::kOk},
           {profiler::kGpuDuration, duration, CounterStatus::kOk},
           {rate, percent, CounterStatus::kOk}}};
}

}  // namespace

TEST_CASE("launches of one name are one range with their bytes added up") {
  const auto ranges = ranges_of(logged({{"linear", 10.0}, {"rope", 1.0}, {"linear", 20.0}}));
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].path == "linear");
  CHECK(ranges[0].launches == 2);
  CHECK(ranges[0].predicted.total_read() == 30.0);
  CHECK(ranges[1].path == "rope");
}

TEST_CASE("a traced repetition adds up the kernels of each path") {
  auto ranges = ranges_of(logged({{"linear", 10.0}, {"rope", 1.0}, {"linear", 20.0}}));
  add_trace({{{"linear", 1, 5.0}, {"rope", 1, 2.0}, {"linear", 2, 7.0}},
             {{"linear", 1, 6.0}, {"rope", 1, 3.0}, {"linear", 2, 8.0}}},
            ranges);
  CHECK(ranges[0].gpu_time_ns == std::vector<double>{12.0, 14.0});
  CHECK(ranges[1].gpu_time_ns == std::vector<double>{2.0, 3.0});
}

TEST_CASE("a path whose launches a recording replays has no traced time") {
  auto ranges = ranges_of(logged({{"linear", 1.0}, {"linear", 1.0}, {"linear", 1.0}}));
  // Captured: a launch without a kernel. Replayed: no launch at all.
  add_trace({{{"linear", 1, 5.0}, {"linear", 2, 0.0}, {"linear", 3, 0.0}},
             {{"linear", 1, 5.0}},
             {{"linear", 1, 5.0}, {"linear", 2, 6.0}, {"linear", 3, 7.0}}},
            ranges);
  CHECK(ranges[0].gpu_time_ns == std::vector<double>{18.0});
}

TEST_CASE("counters add over launches, rates weigh by duration, repetitions give the median") {
  auto ranges = ranges_of(logged({{"linear", 10.0}, {"linear", 20.0}}));
  add_counters({{sample("linear", 100.0, 10.0, 50.0), sample("linear", 200.0, 30.0, 90.0)},
                {sample("linear", 110.0, 10.0, 50.0), sample("linear", 200.0, 30.0, 90.0)},
                {sample("linear", 900.0, 10.0, 50.0), sample("linear", 200.0, 30.0, 90.0)}},
               ranges);
  REQUIRE(ranges[0].counters.size() == 3);
  CHECK(ranges[0].counters[0].value == 310.0);  // 300, 310, 1100
  CHECK(ranges[0].counters[1].value == 40.0);
  CHECK(*ranges[0].counters[2].value == Approx(80.0));  // (10 50 + 30 90) / 40
}

TEST_CASE("a counter that one launch lacks is lacking, with that launch's reason") {
  auto ranges = ranges_of(logged({{"linear", 10.0}, {"linear", 20.0}}));
  RangeSample broken = sample("linear", 1.0, 1.0, 1.0);
  broken.counters[0] = {kDramBytesRead, std::nullopt, CounterStatus::kNan};
  add_counters({{sample("linear", 100.0, 10.0, 50.0), broken}}, ranges);
  CHECK(!ranges[0].counters[0].value);
  CHECK(ranges[0].counters[0].status == CounterStatus::kNan);
  CHECK(ranges[0].counters[1].status == CounterStatus::kOk);
}
