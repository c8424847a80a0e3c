// Attention points through a whole campaign on the CPU backend: real kernels, host times.
#include <catch2/catch.hpp>

#include "engine/measure/sweep/campaign.h"
#include "engine/measure/sweep/synthetic_layer.h"
#include "model/words/error.h"
#include "tests/engine/measure/sweep/campaign_case.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

std::vector<PointMeasurement> run(const SweepPlan& plan) {
  const CampaignMachine machine = open_campaign(plan, Backend::kCpu);
  CHECK(machine.record.counter_access == CounterState::kOff);
  CHECK(machine.record.device.size() > 3);
  std::vector<PointMeasurement> points;
  std::int64_t reports = 0;
  const CampaignProgress progress = run_campaign(
      plan, plan.points, machine, {.threads = 2},
      [&](const PointMeasurement& point) { points.push_back(point); },
      [&](const CampaignProgress& at) { CHECK(at.done == ++reports); });
  CHECK(progress.done == static_cast<std::int64_t>(plan.points.size()));
  return points;
}
std::vector<PointMeasurement> run(const std::string& grids) {
  return run(cpu_plan(grids));
}

}  // namespace

TEST_CASE("an attention point on the CPU has times, overlap and no invented counters") {
  const auto points = run(R"([{"context_len": 1024, "draft": ["ar", "d2k2n4"], "order": "dfs"}])");
  REQUIRE(points.size() == 2);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, point.reason);
    CHECK(point.status == PointStatus::kOk);
    CHECK(point.time_ns.size() == 2);
    CHECK(point.stop_reason == "fixed");
    CHECK(point.time_ns[0] > 0.0);
    for (const RangeMeasurement& range : point.ranges) {
      CHECK(range.predicted.total() > 0.0);
      CHECK(range.counters.at(0).status == CounterStatus::kUnsupported);
    }
    CHECK(*point.unique_blocks >= 16.0);
    CHECK(*point.unique_blocks <= 17.0);  // 1K tokens are 16 blocks and the drafts' own
  }
  CHECK(!points[0].adjacent_overlap);
  CHECK(points[1].adjacent_overlap);
}

TEST_CASE("the declared overlap is met where the context allows it") {
  const auto points = run(R"([{"context_len": 8192, "draft": "d3k2n8", "order": "dfs",
                              "overlap": [0.3, 0.6, 0.9]}])");
  REQUIRE(points.size() == 3);
  for (const PointMeasurement& point : points) {
    CAPTURE(*point.key.overlap);
    CHECK(std::abs(*point.adjacent_overlap - *point.key.overlap) < 0.08);
  }
  CHECK(*points[0].unique_blocks > *points[2].unique_blocks);
}

TEST_CASE("a reuse layer runs on blocks of exactly the declared overlap, and no routing") {
  const auto points = run(R"([{"context_len": 16384, "draft": "d3k2n8", "layer": "reuse",
                              "overlap": [0.2, 0.5, 0.8]}])");
  REQUIRE(points.size() == 3);
  for (const PointMeasurement& point : points) {
    CAPTURE(*point.key.overlap, point.reason);
    REQUIRE(point.status == PointStatus::kOk);
    CHECK(point.key.strategy == "nsa/d3k2n8/bfs/c1/(FR)*");
    CHECK(std::abs(*point.adjacent_overlap - *point.key.overlap) < 0.03);
    for (const RangeMeasurement& range : point.ranges) {
      CHECK(range.path != "nsa_select");
      CHECK(range.path != "nsa_route");
    }
  }
}

TEST_CASE("groups take their turns on one layer; exact ones leave the blocks as they are") {
  const auto points =
      run(R"([{"context_len": 8192, "draft": "d3k2n8", "layer": ["refresh", "reuse"],
                              "overlap": 0.5, "group": ["c1", "c8e"]},
                              {"context_len": 8192, "draft": "d3k2n8", "layer": "reuse",
                               "overlap": 0.5, "group": "c8a"}])");
  REQUIRE(points.size() == 5);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, point.reason);
    REQUIRE(point.status == PointStatus::kOk);
  }
  CHECK(points[0].unique_blocks == points[2].unique_blocks);  // c1 and c8e, refresh
  CHECK(points[1].unique_blocks == points[3].unique_blocks);  // reuse
  CHECK(*points[4].unique_blocks == 16.0);                    // one representative
  CHECK(*points[4].adjacent_overlap == 1.0);
}

TEST_CASE("what cannot be run is refused or failed with a sentence, and the sweep goes on") {
  SweepPlan plan =
      cpu_plan(R"([{"context_len": 256, "draft": "ar", "model": ["nsa-1b", "dense-1b"]},
                               {"context_len": 256, "draft": "d2k2n4"}])");
  REQUIRE(plan.points.size() == 3);
  plan.points[0].model = "nsa-900b";  // which no sweep file could name
  const auto points = run(plan);
  REQUIRE(points.size() == 3);
  CHECK(points[0].status == PointStatus::kFailed);
  CHECK(points[0].reason.find("nsa-900b") != std::string::npos);
  CHECK(points[1].status == PointStatus::kRefused);
  CHECK(points[1].reason.find("this one is dense") != std::string::npos);
  CHECK(points[2].status == PointStatus::kOk);
}

TEST_CASE("synthetic numbers are the same for the same seed") {
  SyntheticRandom a(5);
  SyntheticRandom b(5);
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < 20000; ++i) {
    const double value = a.normal();
    CHECK(value == b.normal());
    sum += value;
    squares += value * value;
  }
  CHECK(std::abs(sum / 20000.0) < 0.03);
  CHECK(squares / 20000.0 == Approx(1.0).epsilon(0.03));
  CHECK(SyntheticRandom(6).uniform() != SyntheticRandom(5).uniform());
}
