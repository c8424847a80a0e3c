// A pair that is measured for itself: its prompts, and its own steps on the CPU backend.
#include <catch2/catch.hpp>
#include <set>

#include "engine/measure/sweep/pair_sweep.h"
#include "model/words/error.h"
#include "tests/engine/measure/sweep/campaign_case.h"
#include "tests/support/pair_texts.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::engine;
using test::write_text;
namespace fs = std::filesystem;

TEST_CASE("what a folder of prompts holds beside them is told, by name") {
  const test::TempFolder folder;
  fs::create_directories(folder / "test");
  fs::create_directories(folder / "older");
  write_text(folder / "a.txt", "one");
  write_text(folder / "test" / "b.txt", "two");
  CHECK(passed_over_prompts({folder / "a.txt"}).empty());
  const std::vector<std::string> folders = passed_over_prompts({folder.path()});
  REQUIRE(folders.size() == 1);
  CHECK(folders[0].find("passed over are 1 folder (older): prompts are .txt") != std::string::npos);
  write_text(folder / "test" / "notes.md", "three");
  write_text(folder / "older" / "c.txt", "four");
  CHECK(listed_prompts({folder.path()}).size() == 2);
  const std::vector<std::string> both = passed_over_prompts({folder.path()});
  REQUIRE(both.size() == 2);
  CHECK(both[1].find("passed over are 1 file (notes.md)") != std::string::npos);
  // Where nothing is left the refusal says it.
  fs::create_directories(folder / "none" / "code");
  try {
    listed_prompts({folder / "none"});
    FAIL("no prompt was found");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("1 folder (code)") != std::string::npos);
  }
  write_text(folder / "index.json", "[]");  // its own list names what is a prompt
  CHECK(passed_over_prompts({folder.path()}).empty());
}

TEST_CASE("a pair's layers and baseline steps are of its own shape, on the CPU too") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "p", {});
  write_text(folder / "t.txt", test::numbers(2000));
  const PairSource pair{.id = {"nsa-1b", std::string(64, 'f')},  // a geometry's name
                        .model = folder / "p",
                        .prompts = listed_prompts({folder / "t.txt"})};
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "attention", "model": "pair", "context_len": 300,
           "draft": ["ar", "d2k2n4"], "layer": ["refresh", "reuse"]},
          {"workload": "attention", "model": "pair", "context_len": 300, "draft": "d2k2n4",
           "form": "vanilla"},
          {"workload": "decode", "model": "pair", "context_len": 300,
           "strategy": ["dense/ar", "dense/d2k2n4/bfs/c1/F*"]},
          {"workload": "step", "model": "pair", "regime": "given", "context_len": 300,
           "draft": ["ar", "d2k2n4"], "form": "vanilla"},
          {"workload": "step", "model": "pair", "regime": "given", "context_len": 300,
           "strategy": ["dense/ar", "dense/d2k2n4/bfs/c1/F*"], "launch": "stream"}])",
                                  2, pair.id);
  const std::vector<PointMeasurement> points = measured(plan, {.threads = 1, .pair = pair});
  REQUIRE(points.size() == 11);
  double dense_step = 0.0, dense_layer = 0.0;
  for (const PointMeasurement& point : points) {
    CAPTURE(point.key.strategy, point.reason);
    CHECK(point.key.pair == pair.id.sha256);
    REQUIRE(point.status == PointStatus::kOk);
    CHECK(point.time_ns.size() == 2);
    for (const RangeMeasurement& range : point.ranges) {
      if (point.key.strategy == "dense/ar" && range.path == "tree_attention") {
        (point.key.workload == WorkloadKind::kStep ? dense_step : dense_layer) =
            range.predicted.total();
      }
      // No dense step selects.
      CHECK((point.key.strategy[0] == 'n' || range.path.find("nsa") == std::string::npos));
    }
  }
  // Of the tiny pair's two KV heads of 16 numbers 300 tokens in f32, a step in each of three
  // layers.
  CHECK(dense_layer >= 2.0 * 300 * 2 * 16 * 4);
  CHECK(dense_layer < 1.5 * 2.0 * 300 * 2 * 16 * 4);
  CHECK(dense_step == Approx(3.0 * dense_layer).epsilon(0.2));
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
  write_text(folder / "a/one.txt", "one");
  write_text(folder / "a/two.txt", "two");
  write_text(folder / "a/chat.json", "[]");
  write_text(folder / "a/test/three.txt", "three");
  write_text(folder / "a/notes.md", "no prompt");
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
  write_text(folder / "b/index.json", R"([{"file": "x.txt", "regime": "plan", "split": "test"}])");
  CHECK(listed_prompts({folder / "b"}).at(0).path == folder / "b/x.txt");
  write_text(folder / "c/index.json", R"([{"file": "x.txt"}])");
  CHECK_THROWS_WITH(listed_prompts({folder / "c"}),
                    Catch::Contains("needs file, regime and split"));
  CHECK_THROWS_WITH(listed_prompts({folder / "none"}), Catch::Contains("no such file or folder"));
  fs::create_directories(folder / "d");
  CHECK_THROWS_WITH(listed_prompts({folder / "d"}), Catch::Contains("holds no prompts"));
}

TEST_CASE("messages of a chat are a prompt whole, and what follows them is the model's alone") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "p", {});
  write_text(folder / "p/chat_template.jinja",
             "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
  write_text(folder / "a.json", R"([{"role": "user", "content": "How long is a day?"}])");
  write_text(folder / "b.json", R"([{"role": "user", "content": "Why?"}])");
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
  const std::vector<PointMeasurement> points = measured(plan, {.threads = 1, .pair = pair});
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
  write_text(folder / "t.txt", test::numbers(2000));
  const PairSource pair{.id = {"p", std::string(64, 'f')},
                        .model = folder / "p",
                        .prompts = listed_prompts({folder / "t.txt"})};
  const SweepPlan plan = cpu_plan(R"([
          {"workload": "step", "model": "pair", "regime": "given", "context_len": [300, 5000],
           "draft": ["ar", "d2k2n4"], "launch": "stream"}])",
                                  2, pair.id);
  const std::vector<PointMeasurement> points = measured(plan, {.threads = 1, .pair = pair});
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
