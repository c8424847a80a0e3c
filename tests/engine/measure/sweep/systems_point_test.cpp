// Points of the other systems through a whole campaign on the CPU backend: real kernels, host
// times, and each launch bound to its traffic.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "engine/analyse/fit/system_points.h"
#include "kernels/flash_decode/partition.h"
#include "model/launches/flash_decode.h"
#include "model/launches/index_scores.h"
#include "model/launches/topk.h"
#include "model/words/traffic.h"
#include "tests/engine/measure/sweep/campaign_case.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

double read_of(const Traffic& t, TrafficTerm term) {
  return t.read_bytes[static_cast<std::size_t>(term)];
}

void check_measured(const PointMeasurement& point) {
  CAPTURE(point.key.strategy, point.reason);
  REQUIRE(point.status == PointStatus::kOk);
  CHECK(point.time_ns.size() == 2);
  CHECK(point.time_ns[0] > 0.0);
  REQUIRE(!point.ranges.empty());
  for (const RangeMeasurement& range : point.ranges) {
    CAPTURE(range.path);
    CHECK(range.predicted.total() > 0.0);
    CHECK(range.counters.at(0).status == CounterStatus::kUnsupported);
  }
}

}  // namespace

TEST_CASE("decode points read what their method reads of the cache") {
  const auto points = measured(R"([{"workload": "decode", "context_len": 2048,
    "strategy": ["dense/ar", "resa:b16p0.2f32/ar", "dense/d2k2n5/bfs/c1/F*",
                 "specattn:p0.5/d3k1n4/bfs/c1/F*", "specattn:p0.97/d3k1n4/bfs/c1/F*"]}])");
  REQUIRE(points.size() == 5);
  for (const PointMeasurement& point : points) {
    check_measured(point);
  }
  const double token = 2.0 * 8 * 64 * 4;  // keys and values of a token in f32
  const Traffic dense = range_of(points[0], "tree_attention").predicted;
  CHECK(read_of(dense, TrafficTerm::kWindow) == Approx(2048 * token).epsilon(0.01));
  const RangeMeasurement& resa = range_of(points[1], "resa_decode");
  CHECK(*points[1].unique_blocks == 26.0);  // a fifth of 129 blocks
  CHECK(read_of(resa.predicted, TrafficTerm::kSelectedBlocks) ==
        Approx(26 * 16 * token).epsilon(0.1));
  CHECK(range_of(points[1], "block_keys").launches == 1);
  const double few = *points[3].unique_blocks, many = *points[4].unique_blocks;
  CHECK(few < 0.15 * 2048 / 16);
  CHECK(few < many);
  CHECK(many < 0.9 * 2048 / 16);
  for (std::size_t i = 3; i < 5; ++i) {
    CHECK(range_of(points[i], "top_p").launches == 1);
    const Traffic chosen = range_of(points[i], "tree_attention").predicted;
    CHECK(read_of(chosen, TrafficTerm::kSelectedBlocks) ==
          Approx(*points[i].unique_blocks * 16 * token).epsilon(0.02));
  }
}

TEST_CASE("n_min and n_local of a point say how many blocks are read") {
  const auto points = measured(R"([{"workload": "decode", "context_len": 1024,
    "strategy": ["resa:b16p0.02f0/ar", "resa:b16p0.02f0n_min4/ar", "resa:b16p0.02f0n_local20/ar",
                 "dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1"]}])");
  REQUIRE(points.size() == 4);
  const double blocks[] = {16.0, 4.0, 20.0};
  for (std::size_t i = 0; i < 3; ++i) {
    check_measured(points[i]);
    CHECK(*points[i].unique_blocks == blocks[i]);
  }
  CHECK(points[1].key.strategy == "resa:b16p0.02f0n_min4/ar");
  CHECK(points[3].status == PointStatus::kRefused);
  CHECK(points[3].reason.find("in generate") != std::string::npos);
}

TEST_CASE("a rectification's pass reads all of the cache for the tokens of its period") {
  const auto points = measured(R"([
    {"workload": "rectify", "context_len": 1024,
     "strategy": ["resa:b16p0.1f4/ar", "resa:b16p0.1f33/ar"]},
    {"workload": "decode", "context_len": 1024,
     "strategy": ["resa:b16p0.2f0/ar", "resa:b16p0.2f0/ar/bfs/c1/F*/form=vanilla"]}])");
  REQUIRE(points.size() == 4);
  for (const PointMeasurement& point : points) {
    check_measured(point);
  }
  CHECK(points[0].key.num_queries == 4);
  CHECK(points[1].key.num_queries == 33);
  const double token = 2.0 * 8 * 64 * 4;
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(points[i].ranges.size() == 1);
    CHECK(read_of(range_of(points[i], "tree_attention").predicted, TrafficTerm::kWindow) ==
          Approx(1024 * token).epsilon(0.01));
  }
  // A CPU has one form: the vanilla one reads what the fused one does.
  CHECK(read_of(range_of(points[3], "resa_decode").predicted, TrafficTerm::kSelectedBlocks) ==
        read_of(range_of(points[2], "resa_decode").predicted, TrafficTerm::kSelectedBlocks));
}

TEST_CASE("the cost model composes the bytes that these points' kernels announce") {
  std::vector<PointMeasurement> points = measured(R"([
    {"workload": "decode", "context_len": 2048,
     "strategy": ["dense/ar", "dense/d2k1n3/bfs/c1/F*", "resa:b16p0.2f32/ar", "resa:b32p0.05f32/ar",
                  "specattn:p0.5/d3k1n4/bfs/c1/F*"]},
    {"workload": "topk", "length": 5000, "rows": 3,
     "case": ["topk:sort/k50", "topk:radix/k50", "topk:gvr/k50/hint0.75"]}])");
  for (PointMeasurement& point : points) {
    point.key.backend = Backend::kCuda;             // else nobody would learn from them
    for (RangeMeasurement& range : point.ranges) {  // a GPU splits the keys of these rows
      range.path = range.path == "tree_attention" ? "flash_decode" : range.path;
    }
  }
  const FitPoints known = system_points(points);
  std::int64_t compared = 0;
  for (const PointMeasurement& point : points) {
    const auto found = std::find_if(known.points.begin(), known.points.end(),
                                    [&](const FitPoint& p) { return p.key == point.key; });
    CAPTURE(point.key.strategy);
    REQUIRE(found != known.points.end());
    const StepWork work = system_work(*found).observed;
    for (const RangeMeasurement& range : point.ranges) {
      Traffic composed;
      for (const LaunchWork& launch : work) {
        if (range.path == path_of(launch.kind)) {
          composed += launch.unique;
        }
      }
      CAPTURE(range.path);
      compared += 1;
      for (std::size_t t = 0; t < kTrafficTermCount; ++t) {
        CAPTURE(name_of(static_cast<TrafficTerm>(t)));
        if (range.path == "flash_decode" && static_cast<TrafficTerm>(t) == TrafficTerm::kScores) {
          continue;  // partial results, which the CPU has none of
        }
        CHECK(composed.read_bytes[t] == Approx(range.predicted.read_bytes[t]).epsilon(0.01));
        CHECK(composed.write_bytes[t] == Approx(range.predicted.write_bytes[t]).epsilon(0.01));
      }
    }
  }
  CHECK(compared == 11);
}

TEST_CASE("the cost model cuts a row's keys as flash_decode does") {
  for (const std::int64_t keys : {1, 128, 129, 4097, 16384, 16385, 40000, 65537, 262152}) {
    CAPTURE(keys);
    const double chunk = flash_chunk_keys(static_cast<double>(keys));
    CHECK(chunk == static_cast<double>(kernels::chunk_keys(keys)));
    CHECK(flash_chunks(static_cast<double>(keys)) == std::ceil(static_cast<double>(keys) / chunk));
  }
}

TEST_CASE("a token-level indexer's point scores, then selects, each at its own price") {
  auto points = measured(R"([
    {"workload": "topk", "length": 700, "rows": 2,
     "case": ["topk:radix/k50/index8x16", "topk:gvr/k50/hint0.75/index8x16"]}])");
  REQUIRE(points.size() == 2);
  for (PointMeasurement& point : points) {
    check_measured(point);
    REQUIRE(point.ranges.size() == 2);
    CHECK(range_of(point, "index_scores").predicted.total() ==
          traffic::index_scores(2, 700, IndexHeads{8, 16}, 4).total());
    CHECK(range_of(point, "topk").predicted.total_write() == 2.0 * 50 * 8);
    point.key.backend = Backend::kCuda;
  }
  const FitPoints priced = system_points(points);
  REQUIRE(priced.points.size() == 2);
  for (const FitPoint& point : priced.points) {
    const PointWork work = system_work(point);
    REQUIRE(work.timed.count == 2);
    CHECK(work.timed.work[0].kind == LaunchKind::kIndexScores);
    CHECK(work.timed.work[1].kind == LaunchKind::kTopkShort);
  }
  CHECK(system_name(priced.points[0]) == "topk gvr indexed");
}

TEST_CASE("points of kernels alone bind one launch to its traffic") {
  const auto points = measured(R"([
    {"workload": "topk", "length": 5000, "rows": 3,
     "case": ["topk:sort/k50", "topk:radix/k50", "topk:gvr/k50/hint0.75", "topk:gvr/k50"]},
    {"workload": "sampling", "length": 1000, "rows": 4,
     "case": ["sampling:baseline/chain/r2", "sampling:exact/chain/r1", "sampling:sigmoid/chain/r1",
              "sampling:baseline/k2/r1", "sampling:exact/k2/r3"]}])");
  REQUIRE(points.size() == 9);
  for (const PointMeasurement& point : points) {
    check_measured(point);
    CHECK(point.ranges.size() == 1);
  }
  CHECK(points[0].ranges[0].predicted.total() == traffic::topk(3, 5000, 50, 4, 0).total());
  CHECK(points[2].ranges[0].predicted.total() == traffic::topk(3, 5000, 50, 4, 50).total());
  CHECK(points[4].ranges[0].path == "spec_sample");
  CHECK(points[7].ranges[0].path == "tree_sample");
}

TEST_CASE("what these workloads cannot measure is refused with a sentence") {
  const auto points = measured(R"([
    {"workload": "decode", "model": "nsa-1b", "context_len": 64,
     "strategy": ["nsa/ar", "dense/ar"]},
    {"workload": "decode", "context_len": 64, "strategy": "resa:b16p0.1f32/d3k1n4/bfs/c1/F*"},
    {"workload": "sampling", "length": 64, "rows": 1, "case": "sampling:exact/chain/r1"}])");
  REQUIRE(points.size() == 4);
  const char* const reasons[] = {"attention points", "dense target", "no draft", "at least two"};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(points[i].status == PointStatus::kRefused);
    CHECK_THAT(points[i].reason, Catch::Contains(reasons[i]));
  }
}
