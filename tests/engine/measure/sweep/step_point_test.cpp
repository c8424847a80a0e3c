// Whole steps through a campaign on the CPU backend: a pair's name says how many tokens its draft
// proposes, and that draft runs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/io/pair_identity.h"
#include "engine/measure/sweep/campaign.h"
#include "engine/measure/sweep/prompt_list.h"
#include "model/words/llm_shape.h"
#include "tests/engine/measure/sweep/campaign_case.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

PointMeasurement step_of(const std::string& model) {
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "step", "context_len": 300, "draft": "d2k2n4", "launch": "stream",
           "model": ")" + model + R"("}])");
  return measured(plan, {.threads = 1}).at(0);
}

}  // namespace

TEST_CASE("a step's draft proposes as many tokens as its pair's name says") {
  const PointMeasurement all = step_of("demo");
  const PointMeasurement some = step_of("demo:v68");
  for (const PointMeasurement* point : {&all, &some}) {
    CAPTURE(point->key.model, point->reason);
    REQUIRE(point->status == PointStatus::kOk);
    CHECK(point->time_ns.size() == 2);
  }
  CHECK(some.key.model == "demo:v68");
  // A level reads the head's rows, 272 or 68 of 320 numbers in f32; the target's is read as before.
  // What is written differs by a few logits.
  const RangeMeasurement& before = range_of(all, "linear");
  const RangeMeasurement& after = range_of(some, "linear");
  CHECK(before.launches == after.launches);
  const double levels = 2.0;
  const double rows = levels * (272 - 68) * 320 * 4;
  CHECK(before.predicted.total() - after.predicted.total() == Approx(rows).epsilon(0.03));
}

TEST_CASE("a step on the CPU says which blocks its nodes chose, and has no trace") {
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "step", "context_len": 2000, "model": "demo", "launch": "stream",
           "strategy": ["nsa/d2k2n4/dfs/c2e/F*", "nsa/ar"]}])",
                                  1);
  std::vector<std::string> stored;  // points and details in the order in which they came
  std::vector<StepDetail> details;
  run_campaign(
      plan, plan.points, open_campaign(plan, Backend::kCpu),
      {.threads = 1,
       .on_detail =
           [&](const StepDetail& detail) {
             stored.push_back("detail");
             details.push_back(detail);
           }},
      [&](const PointMeasurement& point) { stored.push_back(point.key.strategy); },
      [](const CampaignProgress&) {});
  REQUIRE(stored == std::vector<std::string>{"detail", "nsa/d2k2n4/dfs/c2e/F*", "nsa/ar"});
  CHECK(!details[0].trace);
  const BlockChoice& choice = details[0].choice.value();
  REQUIRE(choice.parent.size() == 4);
  CHECK(choice.parent[0] == -1);
  const auto nsa = named_llm_shape("demo").nsa;
  for (const std::vector<std::int32_t>& blocks : choice.blocks) {
    CHECK(std::ssize(blocks) == nsa.sel_count);  // 2,000 tokens have more blocks than that
    CHECK(std::is_sorted(blocks.begin(), blocks.end()));
    CHECK(std::adjacent_find(blocks.begin(), blocks.end()) == blocks.end());
    CHECK(blocks.front() >= 0);
    CHECK(blocks.back() <= 2004 / nsa.sel_block);
  }
}

TEST_CASE("a step of many requests has their rows, reads weights once and their caches each") {
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "batch", "model": "demo", "context_len": 160, "requests": [1, 3],
           "strategy": ["nsa/d2k2n4/bfs/c1/F*", "dense/ar"]},
          {"workload": "batch", "model": "demo", "context_len": 160, "requests": 3,
           "contexts": "mixed", "strategy": "nsa/d2k2n4/bfs/c1/F*/sampling=exact"}])");
  const std::vector<PointMeasurement> points = measured(plan);
  REQUIRE(points.size() == 5);
  const PointMeasurement& one = points[0];
  const PointMeasurement& three = points[2];
  for (const PointMeasurement* point : {&one, &three}) {
    CAPTURE(point->reason);
    REQUIRE(point->status == PointStatus::kOk);
    CHECK(point->time_ns.size() == 2);
  }
  CHECK(three.key.num_queries == 12);
  // A launch of products takes the rows of all: as many launches, whose bytes are mostly weights.
  CHECK(range_of(one, "linear").launches == range_of(three, "linear").launches);
  CHECK(range_of(three, "linear").predicted.total() <
        1.5 * range_of(one, "linear").predicted.total());
  const auto cache = [](const PointMeasurement& point) {
    double bytes = 0.0;
    for (const RangeMeasurement& range : point.ranges) {
      bytes += range.predicted.read_bytes[static_cast<std::size_t>(TrafficTerm::kWindow)] +
               range.predicted.read_bytes[static_cast<std::size_t>(TrafficTerm::kSelectedBlocks)];
    }
    return bytes;
  };
  CHECK(cache(three) == Approx(3.0 * cache(one)).epsilon(0.1));
  // What no batch of this target takes is refused, with the reason.
  for (const std::size_t refused : {1, 3, 4}) {
    CHECK(points[refused].status == PointStatus::kRefused);
    CHECK(!points[refused].reason.empty());
  }
}

TEST_CASE("steps of many requests that choose their tokens are points, but SpecAttn's") {
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "batch", "model": "dense-1b", "context_len": 64, "requests": 2,
           "strategy": ["resa:b16p0.5f32n_min1/ar", "indexer:k32/ar",
                        "specattn:p0.9/d3k1n4/bfs/c1/F*"]}])",
                                  1);
  const std::vector<PointMeasurement> points = measured(plan);
  REQUIRE(points.size() == 3);
  for (const std::size_t chosen : {0, 1}) {
    CAPTURE(points[chosen].key.strategy, points[chosen].reason);
    CHECK(points[chosen].status == PointStatus::kOk);
    CHECK(points[chosen].time_ns.size() == 1);
  }
  CHECK(points[2].status == PointStatus::kRefused);
  CHECK(points[2].reason.find("draft model") != std::string::npos);
}

TEST_CASE("a batch's weights are such that neighbours share what is declared") {
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "batch", "model": "demo", "context_len": 4096, "requests": 1,
           "strategy": "nsa/d2k3n8/bfs/c4e/F*"},
          {"workload": "batch", "model": "demo", "context_len": 4096, "requests": [2, 1],
           "overlap": [0.75, 0.9],
           "strategy": ["nsa/d2k3n8/bfs/c4e/F*", "nsa/ar"]}])",
                                  1);
  const std::vector<PointMeasurement> points = measured(plan);
  REQUIRE(points.size() == 7);
  const double unasked = points[0].adjacent_overlap.value();
  CHECK(unasked < 0.7);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, point.reason);
    REQUIRE(point.status == PointStatus::kOk);
    if (point.key.overlap) {
      CHECK(point.adjacent_overlap.value() == Approx(*point.key.overlap).margin(0.05));
    }
    CHECK(point.adjacent_overlap.has_value() == (point.key.strategy != "nsa/ar"));
  }
  // Of eight rows that share more there are fewer distinct blocks.
  CHECK(points[2].unique_blocks.value() < points[1].unique_blocks.value());
  CHECK(points[1].unique_blocks.value() < points[0].unique_blocks.value());
}

TEST_CASE("a step above temperature 0 draws by the launches of its sampler") {
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "step", "model": "demo", "context_len": 300, "launch": ["stream", "graph"],
           "temperature": 0.8,
           "strategy": ["nsa/d2k1n3/bfs/c1/F*", "nsa/d2k1n3/bfs/c1/F*/sampling=exact",
                        "nsa/d2k1n3/bfs/c1/F*/gamma=adapt"]}])");
  const std::vector<PointMeasurement> points = measured(plan);
  REQUIRE(points.size() == 6);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, name_of(point.key.launch), point.reason);
    const bool exact = point.key.strategy.ends_with("exact");
    if (point.key.strategy.ends_with("adapt")) {
      CHECK(point.status == PointStatus::kRefused);
      CHECK(point.reason.find("whole runs") != std::string::npos);
    } else if (exact && point.key.launch == LaunchMode::kGraph) {
      CHECK(point.status == PointStatus::kRefused);
      CHECK(point.reason.find("random numbers from the host") != std::string::npos);
    } else {
      REQUIRE(point.status == PointStatus::kOk);
      CHECK(range_of(point, exact ? "spec_sample" : "gumbel_top").launches == 3);  // 2 + the test
    }
  }
}

TEST_CASE("a period's point is of its steps and the pass that ends them") {
  const std::filesystem::path demo = std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo";
  const PairSource pair{.model = demo / "nsa", .prompts = listed_prompts({demo / "prompts"})};
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "step", "model": "pair", "context_len": 600,
           "strategy": "resa:b16p0.1f3/ar"},
          {"workload": "rectified_step", "model": "pair", "context_len": 600,
           "strategy": ["resa:b16p0.1f3/ar", "resa:b16p0.1f600/ar"]}])");
  const std::vector<PointMeasurement> points = measured(plan, {.threads = 1, .pair = pair});
  REQUIRE(points.size() == 3);
  for (std::size_t i = 0; i < 2; ++i) {
    CAPTURE(points[i].reason);
    REQUIRE(points[i].status == PointStatus::kOk);
    CHECK(points[i].time_ns.size() == 2);
  }
  // The pass reads all of the cache where the step reads blocks of it.
  CHECK(range_of(points[0], "resa_decode").launches == 8);
  CHECK(range_of(points[1], "tree_attention").launches == 8);
  CHECK(points[2].status == PointStatus::kRefused);
  CHECK(points[2].reason.find("period") != std::string::npos);
}

TEST_CASE("a step of a target that drafts for itself is its sparse steps and one pass") {
  const test::TempFolder folder;
  test::TinyModel model;
  model.target.attention = AttentionKind::kDense;
  model.target.layers = 4;
  write_tiny_dense_pair(folder / "model", model, 3);  // a draft model, which such steps leave alone
  const PairSource pair{.id = pair_identity(folder / "model"),
                        .model = folder / "model",
                        .prompts = listed_prompts(
                            {std::filesystem::path(VERSIEVE_SOURCE_DIR) / "engine/demo/prompts"})};
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "step", "model": "pair", "regime": "code", "context_len": 600,
           "launch": ["graph", "stream"],
           "strategy": ["dense/d4k1n5/bfs/c1/F*/draft=resa:b16p0.1", "dense/ar",
                        "dense/d4k1n5/bfs/c1/F*"]}])",
                                  2, pair.id);
  const std::vector<PointMeasurement> points = measured(plan, {.threads = 1, .pair = pair});
  REQUIRE(points.size() == 6);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, name_of(point.key.launch), point.reason);
    if (point.key.strategy == "dense/d4k1n5/bfs/c1/F*") {
      CHECK(point.status == PointStatus::kRefused);
      CHECK(point.reason.find("draft heads") != std::string::npos);
      continue;
    }
    REQUIRE(point.status == PointStatus::kOk);
    CHECK(point.time_ns.size() == 2);
    const bool drafts = point.key.num_queries == 5;
    CHECK(range_of(point, "tree_attention").launches == model.target.layers);
    if (drafts) {
      CHECK(range_of(point, "resa_decode").launches == 4 * model.target.layers);
    }
  }
}
