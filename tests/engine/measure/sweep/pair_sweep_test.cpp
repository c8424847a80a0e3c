// The sweep `pair`: contexts that a pair's positions and texts allow, both splits apart; prompts
// that are given; and a pair's own steps on the CPU backend.
#include "engine/measure/sweep/pair_sweep.h"

#include <catch2/catch.hpp>
#include <set>

#include "engine/measure/sweep/campaign.h"
#include "engine/measure/sweep/pair_quality.h"
#include "model/words/error.h"
#include "tests/support/pair_texts.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::engine;
using test::write_text;
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

std::vector<PointMeasurement> points_of(const SweepPlan& plan, const PairSource& pair) {
  std::vector<PointMeasurement> points;
  run_campaign(
      plan, plan.points, open_campaign(plan, Backend::kCpu), {.threads = 1, .pair = pair},
      [&](const PointMeasurement& point) { points.push_back(point); },
      [](const CampaignProgress&) {});
  return points;
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

TEST_CASE("a pair's schedules have steps and acceptance, and so have approximate groups") {
  PairSweepShape own = shape(4096, 1 << 14);
  own.reuse.push_back("FRRFR");
  std::set<std::string> steps, acceptance;
  for (const PointKey& key : plan_of(own).points) {
    (key.workload == WorkloadKind::kStep ? steps : acceptance).insert(key.strategy);
  }
  for (const char* schedule : {"(FR)*", "(FRRR)*", "FRRFR"}) {
    CHECK(steps.count(std::string("nsa/d6k8n64/bfs/c8e/") + schedule) == 1);
    CHECK(acceptance.count(std::string("nsa/d6k8n64/bfs/c1/") + schedule) == 1);
  }
  for (const char* grouped : {"bfs/c4a", "dfs/c4a", "bfs/c8a", "dfs/c8a"}) {
    CHECK(acceptance.count(std::string("nsa/d6k8n64/") + grouped + "/F*") == 1);
  }
}

TEST_CASE("schedules of a search are those within each budget, once, and none of the usual ones") {
  const auto step = [](std::int64_t layer, const char* schedule, double rise) {
    return ScheduleStep{.layer = layer, .schedule = schedule, .rise = rise};
  };
  const ScheduleSearch search{.curve = {step(-1, "FFFFFF", 0.0), step(1, "FRFFFF", 0.001),
                                        step(2, "FRRFFF", 0.01), step(5, "FRRFFR", 0.019)}};
  const std::vector<CalibratedSchedule> found = calibrated_schedules(search);
  REQUIRE(found.size() == 2);  // what 0.05 finds was found with 0.02
  CHECK(found[0].schedule == "FRFFFF");
  CHECK(found[0].budget == 0.005);
  CHECK(found[1].schedule == "FRRFFR");
  CHECK(found[1].budget == 0.02);
  CHECK(found[1].rise == 0.019);
  using Schedules = std::vector<std::string>;
  CHECK(reuse_schedules(found) == Schedules{"(FR)*", "(FRRR)*", "FRFFFF", "FRRFFR"});
  const std::vector<CalibratedSchedule> usual =
      calibrated_schedules({.curve = {step(-1, "FFFFFF", 0.0), step(5, "FRFRFR", 0.001)}});
  REQUIRE(usual.size() == 1);
  CHECK(usual[0].schedule == "(FR)*");  // under which it is measured
  CHECK(reuse_schedules(usual) == Schedules{"(FR)*", "(FRRR)*"});
  CHECK(calibrated_schedules({.curve = {step(-1, "FFFFFF", 0.0)}}).empty());
}

TEST_CASE("a pair is calibrated on one split and judged on the other, and on questions") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "p", {});
  const std::string text = test::numbers(2000);
  write_text(folder / "a/calibration/one.txt", text.substr(0, 900));
  write_text(folder / "a/test/two.txt", text.substr(900));
  write_text(folder / "set.json", R"({"format": "versieve task set", "schema": 1, "name": "made",
      "contexts": [{"text": "one two three four five six seven", "questions": [
      {"choices": [" eight", " cats"], "answer": 0}, {"at": 13, "choices": [" four", " no"],
       "answer": 0}]}]})");
  const PairAtHand pair({.id = {"p", std::string(64, 'f')},
                         .model = folder / "p",
                         .prompts = listed_prompts({folder / "a"})},
                        Backend::kCpu);
  std::optional<CalibrateRequest> request = pair_calibration(pair, 1);
  REQUIRE(request);
  REQUIRE(request->windows.size() == 1);
  CHECK(request->windows[0].name == "calibration/one.txt@0");
  CHECK(request->windows[0].tokens.size() == 80 + 1 + 128);  // five blocks of 16, then what counts
  const CalibrateReport report = run_calibration(*request);
  CHECK(report.scored_tokens == 128);
  const std::vector<CalibratedSchedule> found = calibrated_schedules(report.search);

  const std::vector<PairQualityPart> parts = pair_quality(pair, {.reuse = reuse_schedules(found),
                                                                 .tasks = {folder / "set.json"},
                                                                 .questions = 1,
                                                                 .threads = 1});
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].name == "made");
  CHECK(parts[1].name == "texts");
  CHECK(parts[1].split == "test");
  CHECK(parts[0].configuration != parts[1].configuration);
  for (const PairQualityPart& part : parts) {
    const LossyQualityReport judged = run_lossy_quality(part.request);
    REQUIRE(!judged.sets.empty());
    CHECK(judged.sets[0].rows.size() == 1 + reuse_schedules(found).size() + 6);
    CHECK(judged.sets[0].asks == (part.name == "made"));
    CHECK(quality_points(judged, pair.source.id, part.split)[0].split == "test");
  }
  CHECK(parts[1].request.windows[0].group == "512 tokens");
  CHECK(parts[1].request.windows[0].name == "test/two.txt@0");

  PairSource one_split = pair.source;  // what made the schedules does not judge them
  std::erase_if(one_split.prompts, [](const PromptFile& p) { return p.split == "test"; });
  CHECK(pair_quality(PairAtHand(one_split, Backend::kCpu), {.reuse = {"(FR)*"}}).empty());
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
  const std::vector<PointMeasurement> points = points_of(plan, pair);
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
  const SweepPlan plan = sweep_from_json(
      R"({"name": "test", "timing": {"warm_up_s": 0, "fixed_samples": 2}, "grids": [
          {"workload": "step", "model": "pair", "regime": "given", "context_len": [300, 5000],
           "draft": ["ar", "d2k2n4"], "launch": "stream"}]})",
      "test", Backend::kCpu, pair.id);
  const std::vector<PointMeasurement> points = points_of(plan, pair);
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
