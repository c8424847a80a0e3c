// A sweep's text becomes one list of points, always the same; shards cut it, resume thins it out.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/measure/sweep/campaign.h"
#include "model/launches/draft_levels.h"
#include "model/words/batch_point.h"
#include "model/words/error.h"
#include "model/words/kernel_case.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"
#include "tests/engine/measure/sweep/sweep_case.h"

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("the same text expands to the same points in the same order") {
  for (const std::string& name : sweep_names()) {
    CAPTURE(name);
    CHECK(built_in(name).points == built_in(name).points);
    CHECK(configuration_json(built_in(name)) == configuration_json(built_in(name)));
  }
}

TEST_CASE("no sweep names a point twice, and every strategy is canonical and legal to write") {
  for (const std::string& name : sweep_names()) {
    const SweepPlan plan = built_in(name);
    CAPTURE(name);
    REQUIRE(!plan.points.empty());
    for (std::size_t i = 0; i < plan.points.size(); ++i) {
      const PointKey& key = plan.points[i];
      switch (key.workload) {
        case WorkloadKind::kTopk:
          CHECK(TopkCase::parse(key.strategy).text() == key.strategy);
          break;
        case WorkloadKind::kSampling:
          CHECK(SamplingCase::parse(key.strategy).text() == key.strategy);
          break;
        case WorkloadKind::kMachine:
          CHECK(MachineCase::parse(key.strategy).text() == key.strategy);
          break;
        case WorkloadKind::kAttention:
        case WorkloadKind::kStep:
        case WorkloadKind::kAcceptance:
        case WorkloadKind::kDecode:
        case WorkloadKind::kRectify:
        case WorkloadKind::kRectifiedStep:
        case WorkloadKind::kBatch:
          CHECK(Strategy::parse(key.strategy).text() == key.strategy);
      }
      CHECK(std::find(plan.points.begin() + static_cast<std::ptrdiff_t>(i) + 1, plan.points.end(),
                      key) == plan.points.end());
    }
  }
}

TEST_CASE("the shipped campaign holds over 300 points of all three workloads") {
  const SweepPlan plan = built_in("h200-core");
  CHECK(plan.points.size() >= 300);
  CHECK(count_of(plan, WorkloadKind::kAttention) >= 140);
  CHECK(count_of(plan, WorkloadKind::kStep) >= 50);
  CHECK(count_of(plan, WorkloadKind::kAcceptance) >= 4 * 4 * 8);
}

TEST_CASE("the attention campaign covers its grid in both layers, both states and all groups") {
  const SweepPlan plan = built_in("h200-fused");
  CHECK(plan.points.size() == 982);  // as the shipped database holds
  CHECK(count_of(plan, WorkloadKind::kAttention) == static_cast<std::int64_t>(plan.points.size()));
  std::map<std::string, std::int64_t> grouped;
  std::set<std::pair<std::int64_t, std::int64_t>> cells;
  std::int64_t reuse = 0;
  std::int64_t warm = 0;
  for (const PointKey& key : plan.points) {
    const Strategy s = Strategy::parse(key.strategy);
    grouped["c" + std::to_string(s.group_size) + (s.group_mode == GroupMode::kExact ? "e" : "a")] +=
        1;
    cells.insert({key.context_len, key.num_queries});
    reuse += s.schedule == "(FR)*" ? 1 : 0;
    warm += key.cache_state == CacheState::kWarm ? 1 : 0;
    CHECK(s.form == NsaForm::kFused);
  }
  for (const std::int64_t context : {1024, 4096, 16384, 65536}) {
    for (const std::int64_t queries : {1, 4, 16, 64, 128}) {
      CHECK(cells.count({context, queries}) == 1);
    }
  }
  for (const char* group : {"c1e", "c4e", "c8e", "c8a"}) {
    CHECK(grouped[group] >= 150);
  }
  CHECK(reuse * 2 == static_cast<std::int64_t>(plan.points.size()));
  CHECK(warm >= 290);
}

TEST_CASE("every context range that a plan tells apart has eighty points, the vanilla form 181") {
  const SweepPlan vanilla = built_in("h200-vanilla");
  CHECK(vanilla.points.size() == 181);
  for (const PointKey& key : vanilla.points) {
    CHECK(Strategy::parse(key.strategy).form == NsaForm::kVanilla);
  }
  const SweepPlan contexts = built_in("h200-contexts");
  CHECK(contexts.points.size() == 456);
  const std::array<std::int64_t, 6> edges = {4096, 8192, 12288, 32768, 131072, 262144};
  for (std::size_t i = 1; i < edges.size(); ++i) {
    CHECK(std::count_if(contexts.points.begin(), contexts.points.end(), [&](const PointKey& key) {
            return key.context_len > edges[i - 1] && key.context_len <= edges[i];
          }) >= 78);
  }
}

TEST_CASE("the campaign of steps covers schedules and groups; the shipped attention makes 1,500") {
  const SweepPlan plan = built_in("h200-ssv-step");
  CAPTURE(plan.points.size());
  CHECK(plan.points.size() >= 110);
  CHECK(plan.points.size() <= 130);
  std::set<std::string> schedules;
  for (const PointKey& key : plan.points) {
    CHECK(key.workload == WorkloadKind::kStep);
    schedules.insert(Strategy::parse(key.strategy).schedule);
  }
  CHECK(schedules == std::set<std::string>{"F*", "(FR)*", "(FRRR)*"});
  CHECK(built_in("h200-fused").points.size() + built_in("h200-contexts").points.size() +
            built_in("h200-vanilla").points.size() >=
        1500);
}

TEST_CASE("steps with a draft of fewer tokens stand beside the same with all of them") {
  const SweepPlan plan = built_in("h200-fused-step");
  CHECK(plan.points.size() == 28);
  std::int64_t fewer = 0;
  for (PointKey key : plan.points) {
    if (key.model != "nsa-1b") {
      CAPTURE(key.strategy, key.context_len);
      CHECK(key.model == "nsa-1b:v32000");
      CHECK(Strategy::parse(key.strategy).draft.speculates());
      key.model = "nsa-1b";
      CHECK(std::count(plan.points.begin(), plan.points.end(), key) == 1);
      fewer += 1;
    }
  }
  CHECK(fewer == 8);
}

TEST_CASE("a layer's attention has no draft that its name could speak of") {
  CHECK(small(R"([{"workload": "step", "model": ["nsa-1b", "nsa-1b:v32000"]}])").points.size() ==
        2);
  CHECK(small(R"([{"workload": "step", "model": "dense-1b:v5", "strategy": "dense/ar"}])")
            .points[0]
            .model == "dense-1b:v5");
  for (const char* wrong :
       {R"([{"workload": "attention", "model": ["nsa-1b", "nsa-1b:v32000"]}])",
        R"([{"workload": "decode", "model": "dense-1b:v32000", "strategy": "dense/ar"}])"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH(small(wrong), Catch::Contains("has no draft: write '"));
  }
}

TEST_CASE("a grid names geometries that exist") {
  for (const char* wrong :
       {R"([{"workload": "attention", "model": "nsa-9b"}])",
        R"([{"workload": "step", "model": ["nsa-1b", "nsa-9b"]}])",
        R"([{"workload": "step", "model": "nsa-1b:v0"}])",
        R"([{"workload": "decode", "model": "dense-9b", "strategy": "dense/ar"}])"}) {
    CAPTURE(wrong);
    try {
      small(wrong);
      FAIL("it was taken");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::kBadInput);
      CHECK_THAT(error.what(), Catch::Contains("geometry '"));
    }
  }
}

TEST_CASE("a text that is no case or strategy is the file's fault, and its grid is named") {
  for (const char* wrong :
       {R"([{"workload": "topk", "length": 700, "case": "topk:radix/k50/index0x16"}])",
        R"([{"workload": "decode", "context_len": 64, "strategy": "indexer:k0/ar"}])"}) {
    CAPTURE(wrong);
    try {
      small(wrong);
      FAIL("it was taken");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::kBadInput);
      CHECK_THAT(error.what(), Catch::Contains("grid 1") && (Catch::Contains("canonical form") ||
                                                             Catch::Contains("attention part")));
    }
  }
}

TEST_CASE("the campaign of the demo's steps drafts in one launch, within its positions") {
  const SweepPlan plan = built_in("h200-demo-step");
  CHECK(plan.points.size() == 54);
  const LlmShape demo = named_llm_shape("demo");
  for (const PointKey& key : plan.points) {
    CAPTURE(key.strategy);
    const Strategy strategy = Strategy::parse(key.strategy);
    CHECK(key.workload == WorkloadKind::kStep);
    CHECK(key.model == "demo");
    CHECK(key.launch == LaunchMode::kGraph);
    CHECK(key.context_len < demo.max_position);
    CHECK(illegal_because(strategy, demo) == "");
    CHECK(drafts_in_one_launch(draft_shape_for(demo), demo.vocab, strategy.draft) ==
          strategy.draft.speculates());
  }
}

TEST_CASE("the campaign of the other systems is short and legal") {
  const SweepPlan plan = built_in("h200-systems");
  CAPTURE(plan.points.size());
  CHECK(plan.points.size() == 160);
  for (const WorkloadKind kind :
       {WorkloadKind::kDecode, WorkloadKind::kStep, WorkloadKind::kTopk, WorkloadKind::kSampling}) {
    CHECK(count_of(plan, kind) >= 9);
  }
  for (const PointKey& key : plan.points) {
    if (key.workload == WorkloadKind::kDecode || key.workload == WorkloadKind::kStep) {
      CAPTURE(key.strategy);
      CHECK(illegal_because(Strategy::parse(key.strategy), named_llm_shape(key.model)) == "");
    }
  }
}

TEST_CASE("the campaign of the terms has block size, ratio and period apart, and is legal") {
  const SweepPlan plan = built_in("terms");
  CHECK(plan.points.size() == 361);
  std::map<std::string, std::set<std::string>> settings;  // model and context -> strategies
  std::set<std::int64_t> passes;
  for (const PointKey& key : plan.points) {
    const Strategy strategy = Strategy::parse(key.strategy);
    CAPTURE(key.strategy);
    CHECK(illegal_because(strategy, named_llm_shape(key.model)) == "");
    if (key.workload == WorkloadKind::kDecode && strategy.attention == AttentionMethod::kResa) {
      settings[key.model + std::to_string(key.context_len)].insert(key.strategy);
    } else if (key.workload == WorkloadKind::kRectify) {
      CHECK(key.num_queries == strategy.resa_rectify_every);
      passes.insert(key.num_queries);
    } else if (key.workload == WorkloadKind::kRectifiedStep) {
      CHECK(key.num_queries == 1);
      CHECK(strategy.resa_rectify_every > 0);
    }
  }
  CHECK(settings.size() == 2 * 5);
  for (const auto& [where, strategies] : settings) {
    const std::size_t forms = where.ends_with("131072") ? 1 : 2;
    CHECK(strategies.size() == forms * 3 * 4);  // by block sizes and ratios
  }
  CHECK(passes == std::set<std::int64_t>{16, 32, 64, 128, 256});
}

TEST_CASE("named grids are products of their texts, lengths and rows") {
  const SweepPlan plan = small(R"([
    {"workload": "topk", "length": [100, 200], "rows": [1, 3],
     "case": ["topk:radix/k5", "topk:gvr/k5/hint0.5"]},
    {"workload": "step", "model": "dense-1b", "context_len": 64, "strategy": "resa:b16p0.1f32/ar"},
    {"workload": "sampling", "length": 50, "rows": 3, "case": ["sampling:exact/chain/r2",
     "sampling:sigmoid/chain/r1/b3", "sampling:exact/chain/r1/b2/topk7/topp0.9"]},
    {"workload": "decode", "context_len": 64, "strategy": "specattn:p0.9/d3k1n4/bfs/c1/F*"}])");
  REQUIRE(plan.points.size() == 8 + 5);
  CHECK(plan.points[0].strategy == "topk:radix/k5");
  CHECK(plan.points[1].strategy == "topk:gvr/k5/hint0.5");
  CHECK(plan.points[0].context_len == 100);
  CHECK(plan.points[2].num_queries == 3);
  CHECK(plan.points[7].context_len == 200);
  CHECK(plan.points[8].workload == WorkloadKind::kStep);
  CHECK(plan.points[8].cache_state == CacheState::kAsIs);
  CHECK(plan.points[9].cache_state == CacheState::kColdRotate);
  CHECK(plan.points[11].strategy == "sampling:exact/chain/r1/b2/topk7/topp0.9");
  CHECK(plan.points[12].num_queries == 4);
  CHECK(plan.points[12].model == "dense-1b");
  for (const char* wrong :
       {R"([{"workload": "topk", "length": 100}])", R"([{"workload": "topk", "case": "radix"}])",
        R"([{"workload": "topk", "case": "topk:radix/k5", "context_len": 9}])",
        R"([{"workload": "topk", "case": "topk:radix/k5", "rows": 0}])",
        R"([{"workload": "decode", "strategy": "resa/ar"}])",
        R"([{"workload": "rectify", "strategy": "dense/ar"}])",
        R"([{"workload": "rectify", "strategy": "resa:b16p0.1f0/ar"}])",
        R"([{"workload": "rectified_step", "strategy": "resa:b16p0.1f0/ar"}])",
        R"([{"workload": "decode", "strategy": "dense/ar", "launch": "once"}])",
        R"([{"workload": "step", "strategy": "dense/ar", "cache_state": "warm"}])",
        R"([{"workload": "sampling", "case": "sampling:greedy/chain/r1"}])"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(small(wrong), Error);
  }
}

TEST_CASE("steps of many requests are named by their rows, of contexts alike or mixed") {
  const SweepPlan plan = small(R"([
    {"workload": "batch", "model": "nsa-1b", "context_len": [64, 128], "requests": [1, 8],
     "strategy": ["nsa/ar", "nsa/d3k1n4/bfs/c1/F*"]},
    {"workload": "batch", "model": "dense-1b", "contexts": "mixed", "requests": 3,
     "strategy": "dense/ar"}])");
  REQUIRE(plan.points.size() == 9);
  for (const PointKey& key : plan.points) {
    CHECK(key.workload == WorkloadKind::kBatch);
    CHECK(key.launch == LaunchMode::kStream);
    CHECK(key.cache_state == CacheState::kAsIs);
  }
  CHECK(plan.points[3].num_queries == 32);
  CHECK(batch_requests(plan.points[3]) == 8);
  CHECK(plan.points[3].regime == "synthetic");
  CHECK(batch_contexts(plan.points[8]) == std::vector<std::int64_t>{1024, 4096, 7168});
  for (const char* wrong :
       {R"([{"workload": "batch", "requests": 2}])",
        R"([{"workload": "batch", "strategy": "dense/ar", "requests": 0}])",
        R"([{"workload": "batch", "strategy": "dense/ar", "requests": 5000}])",
        R"([{"workload": "batch", "strategy": "dense/ar", "contexts": "some"}])",
        R"([{"workload": "batch", "strategy": "dense/ar", "launch": "graph"}])",
        R"([{"workload": "batch", "strategy": "nsa/ar", "model": "pair"}])",
        R"([{"workload": "batch", "strategy": "dense/ar", "rows": 3}])"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(small(wrong), Error);
  }
}

TEST_CASE("what neighbours share is an axis of batches of trees") {
  const SweepPlan plan = small(R"([
    {"workload": "batch", "model": "nsa-1b", "overlap": [0.6, 0.85], "requests": 2,
     "strategy": ["nsa/ar", "nsa/d3k2n8/bfs/c8e/F*"]},
    {"workload": "batch", "model": "nsa-1b", "requests": 2,
     "strategy": "nsa/d3k2n8/bfs/c8e/F*"}])");
  REQUIRE(plan.points.size() == 4);
  CHECK(!plan.points[0].overlap);  // of one node a request
  CHECK(plan.points[1].overlap == 0.6);
  CHECK(plan.points[2].overlap == 0.85);
  CHECK(!plan.points[3].overlap);
  const std::string stored = configuration_json(plan);
  CHECK(stored.find("\"overlap\":0.85") != std::string::npos);
  for (const char* wrong :
       {R"([{"workload": "batch", "strategy": "dense/ar", "overlap": 0.5}])",
        R"([{"workload": "batch", "strategy": "nsa/ar", "overlap": 1.5}])",
        R"([{"workload": "step", "strategy": "nsa/d3k2n8/bfs/c8e/F*", "overlap": 0.5}])"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(small(wrong), Error);
  }
}

TEST_CASE(
    "energy is sampled where a sweep says over how long, and others keep their configuration") {
  const auto text = [](const std::string& energy) {
    return R"({"name": "e", )" + energy +
           R"("grids": [{"workload": "batch", "strategy": "nsa/ar", "requests": 2}]})";
  };
  const SweepPlan plan = sweep_from_json(text(R"("energy_s": 0.5, )"), "e", Backend::kCuda);
  CHECK(plan.energy_s == 0.5);
  CHECK(configuration_json(plan).find("energy_s") != std::string::npos);
  const SweepPlan without = sweep_from_json(text(""), "e", Backend::kCuda);
  CHECK(without.energy_s == 0.0);
  CHECK(configuration_json(without).find("energy_s") == std::string::npos);
  for (const char* wrong : {R"("energy_s": -1, )", R"("energy_s": 61, )", R"("energy_s": "x", )"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(sweep_from_json(text(wrong), "e", Backend::kCuda), Error);
  }
}

TEST_CASE("steps are measured above temperature 0 too, each tuple at each") {
  const SweepPlan plan = small(R"([
    {"workload": "step", "draft": ["ar", "d3k2n4"], "temperature": [0, 0.6]},
    {"workload": "step", "strategy": "nsa/d3k1n4/bfs/c1/F*/sampling=exact", "model": "nsa-1b",
     "temperature": 1, "launch": "stream"}])");
  REQUIRE(plan.points.size() == 5);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(plan.points[i].temperature == (i < 2 ? 0.0 : 0.6));
  }
  CHECK(plan.points[4].temperature == 1.0);
  for (const char* wrong :
       {R"([{"workload": "attention", "temperature": 0.6}])",
        R"([{"workload": "decode", "strategy": "dense/ar", "temperature": 1}])",
        R"([{"workload": "step", "temperature": -1}])",
        R"([{"workload": "step", "strategy": "dense/ar", "temperature": 1e9}])"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(small(wrong), Error);
  }
}

TEST_CASE("an attention point names its form and layer in its strategy") {
  const SweepPlan plan = small(R"([{"draft": ["ar", "d3k2n4"], "layer": ["refresh", "reuse"],
                                   "form": ["fused", "vanilla"], "group": ["c1"]}])");
  std::vector<std::string> texts;
  for (const PointKey& key : plan.points) {
    texts.push_back(key.strategy);
  }
  CHECK(texts ==
        std::vector<std::string>{"nsa/ar", "nsa/ar/bfs/c1/F*/form=vanilla", "nsa/ar/bfs/c1/(FR)*",
                                 "nsa/ar/bfs/c1/(FR)*/form=vanilla", "nsa/d3k2n4/bfs/c1/F*",
                                 "nsa/d3k2n4/bfs/c1/F*/form=vanilla", "nsa/d3k2n4/bfs/c1/(FR)*",
                                 "nsa/d3k2n4/bfs/c1/(FR)*/form=vanilla"});
  CHECK_THROWS_AS(small(R"([{"schedule": "F*"}])"), Error);
  CHECK_THROWS_AS(small(R"([{"layer": "both"}])"), Error);
  CHECK_THROWS_AS(small(R"([{"form": "triton"}])"), Error);
  CHECK_THROWS_AS(small(R"([{"workload": "step", "layer": "reuse"}])"), Error);
}

TEST_CASE("steps of the vanilla form are led by the host where a sweep does not say") {
  const SweepPlan plan = small(R"([
      {"workload": "step", "draft": ["ar", "d6k8n64"], "form": ["fused", "vanilla"]},
      {"workload": "attention", "draft": "d6k8n64", "form": "vanilla"},
      {"workload": "step", "draft": "d5k4n16", "form": "vanilla", "launch": "graph"}])");
  REQUIRE(plan.points.size() == 6);
  for (std::size_t i = 0; i < 4; ++i) {  // whose launches ask it for the context's length
    const bool vanilla = plan.points[i].strategy.find("/form=vanilla") != std::string::npos;
    CHECK(vanilla == (i % 2 == 1));
    CHECK(plan.points[i].launch == (vanilla ? LaunchMode::kStream : LaunchMode::kGraph));
  }
  CHECK(plan.points[4].launch == LaunchMode::kGraph);  // a layer's context never grows
  CHECK(plan.points[5].launch == LaunchMode::kGraph);  // who says so is told why not
  for (const PointKey& key : built_in("h200-ssv-step").points) {
    const bool vanilla = key.strategy.find("/form=vanilla") != std::string::npos;
    CHECK(key.launch == (vanilla ? LaunchMode::kStream : LaunchMode::kGraph));
  }
}

TEST_CASE("layers, dense caches and dense steps are a pair's as its steps are") {
  const SweepPlan plan = sweep_from_json(
      R"({"name": "x", "grids": [
          {"workload": "attention", "model": "pair", "draft": "d5k4n16"},
          {"workload": "decode", "model": "pair", "strategy": "dense/ar"},
          {"workload": "step", "model": "pair", "strategy": "dense/ar", "regime": "code"},
          {"workload": "step", "model": "dense-1b", "strategy": "dense/ar"}]})",
      "x", Backend::kCuda, {"mine", "abc"});
  REQUIRE(plan.points.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(plan.points[i].model == "mine");
    CHECK(plan.points[i].pair == "abc");
    CHECK(plan.points[i].regime == (i == 2 ? "code" : "synthetic"));
    CHECK(plan.points[i].split == (i == 2 ? "calibration" : ""));
  }
  CHECK(plan.points[3].pair.empty());
  CHECK(plan.points[3].regime == "synthetic");
  for (const char* wrong : {R"([{"workload": "decode", "model": ["pair", "dense-1b"],
                                 "strategy": "dense/ar"}])",
                            R"([{"workload": "attention", "model": ["pair", "nsa-1b"]}])",
                            R"([{"workload": "attention", "regime": "code"}])",
                            R"([{"workload": "step", "strategy": "dense/ar", "split": "test"}])"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(small(wrong), Error);
  }
}
