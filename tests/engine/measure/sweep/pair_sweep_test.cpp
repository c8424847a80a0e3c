// The sweep `pair`: contexts that a pair's positions and texts allow, both splits apart; prompts
// that are given; and a pair's own steps on the CPU backend.
#include "engine/measure/sweep/pair_sweep.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "engine/measure/sweep/campaign.h"
#include "model/words/error.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::engine;
namespace fs = std::filesystem;

namespace {

PairSweepShape shape(std::int64_t positions, std::int64_t longest_text,
                     std::int64_t longest_chat = 0) {
  return {.positions = positions,
          .longest_text = longest_text,
          .longest_chat = longest_chat,
          .regimes = {"chat", "code"},
          .splits = {"calibration", "test"}};
}

SweepPlan plan_of(const PairSweepShape& shape, Backend backend = Backend::kCuda) {
  return sweep_from_json(pair_sweep(shape, backend), "pair", backend,
                         {"mine", std::string(64, 'e')});
}

std::set<std::int64_t> contexts_of(const PairSweepShape& shape) {
  std::set<std::int64_t> contexts;
  for (const PointKey& key : plan_of(shape).points) {
    contexts.insert(key.context_len);
  }
  return contexts;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("a pair is measured at contexts that its positions and the texts allow") {
  using Set = std::set<std::int64_t>;
  CHECK(contexts_of(shape(1 << 14, 1 << 14)) == Set{2048, 6144, 10240, 14336});
  CHECK(contexts_of(shape(8192, 1 << 14)) == Set{2048, 6144});
  CHECK(contexts_of(shape(1 << 14, 4000)) == Set{2048});
  CHECK(contexts_of(shape(1024, 1 << 14)) == Set{512});
  CHECK(contexts_of(shape(1 << 14, 400)) == Set{128});
  CHECK(contexts_of(shape(8192, 0, 70)) == Set{128});  // chats alone
  CHECK(contexts_of(shape(8192, 4000, 70)) == Set{128, 2048});
  CHECK_THROWS_WITH(contexts_of(shape(512, 4000)), Catch::Contains("leave no context"));
  CHECK_THROWS_WITH(contexts_of(shape(4096, 200)), Catch::Contains("leave no context"));
}

TEST_CASE("a pair's points bear its hash: steps and both splits, trees and a chain on each") {
  const SweepPlan plan = plan_of(shape(8192, 1 << 14));
  std::set<std::string> steps, planned, judged;
  for (const PointKey& key : plan.points) {
    CHECK(key.model == "mine");
    CHECK(key.pair == std::string(64, 'e'));
    if (key.workload == WorkloadKind::kStep) {
      CHECK(key.launch == LaunchMode::kGraph);
      CHECK(key.split == "calibration");
      steps.insert(key.strategy);
    } else {
      (key.split == "test" ? judged : planned).insert(key.strategy);
    }
  }
  CHECK(steps.count("nsa/ar") == 1);
  CHECK(steps.count("nsa/d8k8n128/bfs/c1/F*") == 1);  // the planner's fixed baseline
  for (const char* strategy : {"nsa/d7k1n8/bfs/c1/F*", "nsa/d6k8n64/bfs/c1/F*"}) {
    CHECK(steps.count(strategy) == 1);
    CHECK(planned.count(strategy) == 1);
    CHECK(judged.count(strategy) == 1);
  }
  CHECK(planned.count("nsa/d6k8n64/bfs/c1/(FR)*") == 1);
  for (const char* strategy : {"nsa/d6k8n64/bfs/c4a/F*", "nsa/d6k8n64/dfs/c4a/F*",
                               "nsa/d6k8n64/bfs/c8a/F*", "nsa/d6k8n64/dfs/c8a/F*"}) {
    CHECK(planned.count(strategy) == 1);  // their yield depends on the order
  }
  CHECK(steps.count("nsa/d6k8n64/dfs/c8e/F*") == 1);
  CHECK(plan_of(shape(8192, 1 << 14), Backend::kCpu).points[0].launch == LaunchMode::kStream);
}

TEST_CASE("a sweep's pair is the one at hand, and no geometry's points are its") {
  const SweepPlan plan = sweep_from_json(
      R"({"name": "x", "grids": [{"workload": "acceptance"}, {"workload": "step", "model": "pair"},
          {"workload": "step", "model": "nsa-1b"}, {"workload": "acceptance", "model": "mine"},
          {"workload": "acceptance", "model": "other", "regime": "code"}]})",
      "x", Backend::kCuda, {"mine", "abc"});
  REQUIRE(plan.points.size() == 4 + 1 + 1 + 1);  // the fourth grid says the first's points again
  CHECK(plan.points[0].pair == "abc");
  CHECK(plan.points[4].model == "mine");
  CHECK(plan.points[4].pair == "abc");
  CHECK(plan.points[4].regime == "chat");
  CHECK(plan.points[5].pair.empty());
  CHECK(plan.points[6].model == "other");
  CHECK(plan.points[6].pair.empty());
  CHECK(wants_pair(plan));
  CHECK_THROWS_WITH(sweep_from_json(R"({"name": "x", "grids": [{"workload": "step",
                                        "model": ["nsa-1b", "pair"]}]})",
                                    "x", Backend::kCuda),
                    Catch::Contains("of geometries or of the pair"));
}

TEST_CASE("prompts are a folder's by its index or its names, files take turns") {
  const test::TempFolder folder;
  write(folder / "a/one.txt", "one");
  write(folder / "a/two.txt", "two");
  write(folder / "a/chat.json", "[]");
  write(folder / "a/test/three.txt", "three");
  write(folder / "a/notes.md", "no prompt");
  const PromptList list = listed_prompts({folder / "a"});
  REQUIRE(list.size() == 4);
  CHECK(list[0].name == "chat.json");
  CHECK(list[0].is_chat);
  CHECK(list[0].regime == "chat");
  CHECK(list[1].split == "calibration");
  CHECK(list[2].split == "test");  // the second text
  CHECK(list[3].name == "test/three.txt");
  CHECK(list[3].split == "test");
  CHECK(listed_prompts({folder / "a/one.txt"}).at(0).split == "calibration");
  CHECK(splits_of(list) == std::vector<std::string>{"calibration", "test"});
  write(folder / "b/index.json", R"([{"file": "x.txt", "regime": "plan", "split": "test"}])");
  CHECK(listed_prompts({folder / "b"}).at(0).path == folder / "b/x.txt");
  write(folder / "c/index.json", R"([{"file": "x.txt"}])");
  CHECK_THROWS_WITH(listed_prompts({folder / "c"}),
                    Catch::Contains("needs file, regime and split"));
  CHECK_THROWS_WITH(listed_prompts({folder / "none"}), Catch::Contains("no such file or folder"));
  fs::create_directories(folder / "d");
  CHECK_THROWS_WITH(listed_prompts({folder / "d"}), Catch::Contains("holds no prompts"));
}

TEST_CASE("messages of a chat are a prompt whole, and what follows them is the model's alone") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "p", {});
  write(folder / "p/chat_template.jinja",
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  write(folder / "a.json", R"([{"role": "user", "content": "How long is a day?"}])");
  write(folder / "b.json", R"([{"role": "user", "content": "Why?"}])");
  const PairSource pair{.id = {"p", std::string(64, 'f')},
                        .model = folder / "p",
                        .prompts = listed_prompts({folder / "a.json", folder / "b.json"})};
  const LoadedPair loaded(pair);
  CHECK(loaded.texts.longest_text() == 0);
  CHECK(loaded.texts.longest_chat() == 24);  // bytes of "<user>How long is a day?"
  const auto windows = [&](std::int64_t context) {
    return loaded.texts.windows({.regime = "chat",
                                 .split = "calibration",
                                 .context_len = context,
                                 .continuation_len = kContinuation,
                                 .count = 4});
  };
  REQUIRE(windows(64).size() == 1);
  CHECK(windows(64)[0].prompt.size() == 24);
  CHECK(windows(64)[0].continuation.empty());
  CHECK(windows(16).empty());
  const SweepPlan plan = sweep_from_json(
      R"({"name": "test", "new_tokens": 6, "grids": [{"workload": "acceptance", "regime": "chat",
          "split": ["calibration", "test"], "context_len": 64, "draft": "d2k2n4"}]})",
      "test", Backend::kCpu, pair.id);
  std::vector<PointMeasurement> points;
  run_campaign(
      plan, plan.points, open_campaign(plan, Backend::kCpu), {.threads = 1, .pair = pair},
      [&](const PointMeasurement& point) { points.push_back(point); },
      [](const CampaignProgress&) {});
  REQUIRE(points.size() == 2);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.reason);
    REQUIRE(point.status == PointStatus::kOk);
    CHECK(point.acceptance->generated_tokens >= 6);
    CHECK(!point.acceptance->teacher_forced);
    CHECK(point.acceptance->walks.empty());
    CHECK(point.unique_blocks.has_value());
  }
}

TEST_CASE("a pair's steps run its own weights on real text") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "p", {});
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "line " + std::to_string(i * i) + "\n";
  }
  write(folder / "t.txt", text);
  const PairSource pair{.id = {"p", std::string(64, 'f')},
                        .model = folder / "p",
                        .prompts = listed_prompts({folder / "t.txt"})};
  const SweepPlan plan = sweep_from_json(
      R"({"name": "test", "timing": {"warm_up_s": 0, "fixed_samples": 2}, "grids": [
          {"workload": "step", "model": "pair", "regime": "given", "context_len": [300, 5000],
           "draft": ["ar", "d2k2n4"], "launch": "stream"}]})",
      "test", Backend::kCpu, pair.id);
  std::vector<PointMeasurement> points;
  run_campaign(
      plan, plan.points, open_campaign(plan, Backend::kCpu), {.threads = 1, .pair = pair},
      [&](const PointMeasurement& point) { points.push_back(point); },
      [](const CampaignProgress&) {});
  REQUIRE(points.size() == 4);
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, point.reason);
    CHECK(point.key.pair == pair.id.sha256);
    if (point.key.context_len == 300) {
      CHECK(point.status == PointStatus::kOk);
      CHECK(point.time_ns.size() == 2);
      CHECK(point.unique_blocks.has_value());
    } else {
      CHECK(point.status == PointStatus::kRefused);
      CHECK(point.reason.find("is as long as 5000 tokens") != std::string::npos);
    }
  }
}
