// A sweep's text: how its axes multiply, what is left out, and which points a run of it takes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/measure/sweep/campaign.h"
#include "model/words/error.h"
#include "tests/engine/measure/sweep/sweep_case.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("axes multiply, autoregressive points do not") {
  const SweepPlan plan = small(R"([{"context_len": [1024, 2048], "draft": ["ar", "d3k2n4"],
                                   "order": ["bfs", "dfs"], "overlap": [0.2, 0.8]}])");
  // For each context: one autoregressive point, and 2 orders x 2 overlaps of the tree.
  REQUIRE(plan.points.size() == 2 * (1 + 4));
  CHECK(plan.points[0].strategy == "nsa/ar");
  CHECK(!plan.points[0].overlap);
  CHECK(plan.points[1].strategy == "nsa/d3k2n4/bfs/c1/F*");
  CHECK(plan.points[1].num_queries == 4);
  CHECK(plan.points[1].overlap == 0.2);
  CHECK(plan.points[1].cache_state == CacheState::kColdRotate);
  CHECK(plan.points[5].context_len == 2048);
}

TEST_CASE("a grid's exceptions leave out what matches all of one of them") {
  const auto points = [](const std::string& except) {
    return sweep_from_json(R"({"name": "x", "grids": [{"context_len": [4096, 65536],
                                "draft": ["ar", "d5k4n16", "d8k8n128"], "group": ["c1", "c8e"],
                                "overlap": [0.2, 0.8])" +
                               except + "}]}",
                           "x", Backend::kCuda)
        .points;
  };
  REQUIRE(points("").size() == 2 * (1 + 2 * 2 * 2));
  const std::vector<PointKey> fewer =
      points(R"(, "except": [{"context_len": 65536, "num_queries": [64, 128]},
                             {"group": "c8e", "overlap": 0.2}])");
  CHECK(fewer.size() == 2 + 3 * (4 - 1));  // ar twice, n16 twice, n128 once
  for (const PointKey& key : fewer) {
    CHECK(!(key.context_len == 65536 && key.num_queries == 128));
    CHECK(!(key.strategy.find("/c8e/") != std::string::npos && key.overlap == 0.2));
  }
  CHECK_THROWS_AS(points(R"(, "except": [{"contex_len": 1}])"), Error);
  CHECK_THROWS_AS(points(R"(, "except": {"group": "c1"})"), Error);
  CHECK_THROWS_AS(points(R"(, "except": [{}])"), Error);
}

TEST_CASE("the CPU backend measures in f32 and says so in the key") {
  for (const PointKey& key : built_in("quick", Backend::kCpu).points) {
    CHECK(key.dtype == Dtype::kF32);
    CHECK(key.backend == Backend::kCpu);
  }
}

TEST_CASE("shards partition the points whatever their number") {
  const std::vector<PointKey> all = built_in("h200-core").points;
  for (const std::int64_t count : {1, 2, 3, 7, 64}) {
    std::size_t total = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<PointKey> shard = shard_of(all, i, count);
      total += shard.size();
      for (std::size_t j = 0; j < shard.size(); ++j) {
        CHECK(shard[j] == all[static_cast<std::size_t>(i) + j * static_cast<std::size_t>(count)]);
      }
    }
    CHECK(total == all.size());
  }
  CHECK(shard_of(all, 500000, 500001).empty());
}

TEST_CASE("a shard's text counts from one and is refused otherwise") {
  CHECK(parse_shard("1/1").count == 1);
  CHECK(parse_shard("3/8").index == 2);
  for (const char* wrong : {"", "1", "0/2", "3/2", "1/0", "-1/2", "1/2x", "a/b", "1//2"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_shard(wrong), Error);
  }
}

TEST_CASE("resume leaves exactly the points that are not stored, in their order") {
  const std::vector<PointKey> all = built_in("quick").points;
  std::set<std::size_t> stored = {0, 3, 4, all.size() - 1};
  const std::vector<PointKey> left = remaining_points(all, [&](const PointKey& key) {
    const auto at = std::find(all.begin(), all.end(), key) - all.begin();
    return stored.count(static_cast<std::size_t>(at)) == 1;
  });
  REQUIRE(left.size() == all.size() - stored.size());
  CHECK(left[0] == all[1]);
  CHECK(left[2] == all[5]);
}

TEST_CASE("what is wrong in a sweep's text is named") {
  const auto sentence_of = [](const std::string& text) -> std::string {
    try {
      sweep_from_json(text, "mine.json", Backend::kCuda);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto names = [&](const std::string& text, const std::string& part) {
    CAPTURE(text, sentence_of(text));
    CHECK(sentence_of(text).find(part) != std::string::npos);
    CHECK(sentence_of(text).find("mine.json") != std::string::npos);
  };
  names("{", "mine.json");
  names("[]", "object");
  names(R"({"name": "x"})", "grids");
  names(R"({"name": "x", "grids": []})", "grids");
  names(R"({"name": "x", "grids": [{}], "gird": 1})", "gird");
  names(R"({"name": "x", "grids": [{"contextlen": 5}]})", "contextlen");
  names(R"({"name": "x", "grids": [{"context_len": 0}]})", "context_len");
  names(R"({"name": "x", "grids": [{"context_len": "4K"}]})", "wrong type");
  names(R"({"name": "x", "grids": [{"overlap": 1.5}]})", "overlap");
  names(R"({"name": "x", "grids": [{"cache_state": "hot"}]})", "hot");
  names(R"({"name": "x", "grids": [{"draft": []}]})", "no values");
  names(R"({"name": "x", "grids": [{}], "timing": {"min_samples": 0}})", "positive");
  CHECK_THROWS_AS(built_in_sweep("h100-core"), Error);
  CHECK_THROWS_AS(small(R"([{"draft": "d3"}])"), Error);
  CHECK_THROWS_AS(small(R"([{"draft": "d1k2n8"}])"), Error);  // such a tree has 3 nodes
  CHECK_THROWS_AS(small(R"([{"workload": "kernel"}])"), Error);
}

TEST_CASE("the stored configuration names every default and no shard") {
  const nlohmann::json stored = nlohmann::json::parse(configuration_json(built_in("quick")));
  CHECK(stored.at("seed") == 1);
  CHECK(stored.at("timing").at("min_samples") == 30);
  CHECK(stored.at("points").size() == built_in("quick").points.size());
  CHECK(!stored.contains("shard"));
}

TEST_CASE("a backend is a word that is known") {
  CHECK(resolved_backend("sim") == Backend::kSimulator);
  CHECK(resolved_backend("cpu") == Backend::kCpu);
  CHECK_THROWS_AS(resolved_backend("tpu"), Error);
}
