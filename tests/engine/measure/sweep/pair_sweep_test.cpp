// The sweep `pair`: contexts that a pair's positions and texts allow, both splits apart; what is
// measured of its schedules and of what they cost.
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
  CHECK(plan.prompts == 8);  // of four kinds: enough to say how texts differ
  CHECK(plan.new_tokens == 128);
  CHECK(plan_of(shape(8192, 1 << 14), Backend::kCpu).prompts == 4);
  std::set<std::string> steps, led, layers, dense_layers, planned, judged;
  for (const PointKey& key : plan.points) {
    CHECK(key.model == "mine");
    CHECK(key.pair == std::string(64, 'e'));
    if (key.workload == WorkloadKind::kStep) {
      (key.launch == LaunchMode::kGraph ? steps : led).insert(key.strategy);
      CHECK(key.split == "calibration");
    } else if (key.workload == WorkloadKind::kAcceptance) {
      (key.split == "test" ? judged : planned).insert(key.strategy);
    } else {
      (key.workload == WorkloadKind::kDecode ? dense_layers : layers).insert(key.strategy);
      CHECK(key.regime == "synthetic");
      CHECK(key.cache_state == CacheState::kColdRotate);
    }
  }
  // What stands beside the planned steps: the vanilla form and the fused one led by the host, and
  // the same weights with dense attention; a layer of each.
  for (const char* tree : {"nsa/ar", "nsa/d6k8n64/bfs/c1/F*", "nsa/d8k8n128/bfs/c1/F*"}) {
    CHECK(led.count(tree) == 1);
  }
  CHECK(led.count("nsa/ar/bfs/c1/F*/form=vanilla") == 1);
  CHECK(led.count("nsa/d6k8n64/bfs/c1/F*/form=vanilla") == 1);
  for (const std::set<std::string>* dense : {&steps, &dense_layers}) {
    CHECK(dense->count("dense/ar") == 1);
    CHECK(dense->count("dense/d6k8n64/bfs/c1/F*") == 1);
  }
  for (const char* layer : {"nsa/ar", "nsa/d6k8n64/bfs/c1/F*", "nsa/d6k8n64/bfs/c8e/(FR)*",
                            "nsa/d6k8n64/bfs/c1/F*/form=vanilla"}) {
    CHECK(layers.count(layer) == 1);
  }
  CHECK(judged.count("nsa/d8k8n128/bfs/c1/F*") == 1);  // without it no table is replayed
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

TEST_CASE("a text that is too short for a context is measured at the longest of its range") {
  PairSweepShape own = shape(16384, 1 << 14);
  own.text_tokens = {{{"chat", "calibration"}, 16384},
                     {{"code", "calibration"}, 6187},
                     {{"chat", "test"}, 13000},
                     {{"code", "test"}, 16384}};
  std::set<std::int64_t> code, chat_judged;
  for (const PointKey& key : plan_of(own).points) {
    if (key.workload == WorkloadKind::kAcceptance && key.regime == "code" &&
        key.split == "calibration") {
      code.insert(key.context_len);
    }
    if (key.workload == WorkloadKind::kAcceptance && key.regime == "chat" && key.split == "test") {
      chat_judged.insert(key.context_len);
    }
    if (key.workload == WorkloadKind::kStep) {
      CHECK(key.regime == "chat");
      CHECK(key.split == "calibration");
    }
  }
  CHECK(code == std::set<std::int64_t>{2048, 5888});  // 5,931 tokens lie before a continuation
  CHECK(chat_judged == std::set<std::int64_t>{2048, 6144, 10240, 12544});
  CHECK(pair_sweep_notes(own) ==
        std::vector<std::string>{
            "code of the split calibration has 6187 tokens of text: measured at 5888 in the place "
            "of 6144",
            "code of the split calibration has 6187 tokens of text: not measured at 10240",
            "code of the split calibration has 6187 tokens of text: not measured at 14336",
            "chat of the split test has 13000 tokens of text: measured at 12544 in the place of "
            "14336"});
  CHECK(pair_sweep_notes(shape(16384, 1 << 14)).empty());
  // Steps are timed where a text reaches furthest, be it the second split's.
  PairSweepShape late = own;
  late.text_tokens[{"chat", "calibration"}] = 7000;
  std::set<std::int64_t> timed;
  for (const PointKey& key : plan_of(late).points) {
    if (key.workload == WorkloadKind::kStep) {
      CHECK(key.regime + " of " + key.split == "chat of test");
      timed.insert(key.context_len);
    }
  }
  CHECK(timed == std::set<std::int64_t>{2048, 6144, 10240, 12544});
  PairSweepShape small = shape(1024, 900);
  small.text_tokens = {{{"chat", "calibration"}, 330},
                       {{"code", "calibration"}, 900},
                       {{"chat", "test"}, 900},
                       {{"code", "test"}, 260}};
  std::set<std::int64_t> chat;
  for (const PointKey& key : plan_of(small).points) {
    CHECK(!(key.regime == "code" && key.split == "test"));  // 4 tokens are no context
    if (key.regime == "chat" && key.split == "calibration" &&
        key.workload == WorkloadKind::kAcceptance) {
      chat.insert(key.context_len);
    }
  }
  CHECK(chat == std::set<std::int64_t>{64});
}

TEST_CASE("at temperatures a pair's texts of plan are measured alone, each tuple at each") {
  PairSweepShape own = shape(4096, 1 << 14);
  own.temperatures = {0.6, 1.0};
  std::map<std::string, std::set<double>> tuples;
  std::set<std::string> steps;
  for (const PointKey& key : plan_of(own).points) {
    if (key.workload == WorkloadKind::kStep) {  // that draw: the same launches at every temperature
      CHECK(key.temperature == 0.6);
      CHECK(key.launch == LaunchMode::kGraph);
      steps.insert(key.strategy);
      continue;
    }
    CHECK(key.workload == WorkloadKind::kAcceptance);
    CHECK(key.split == "calibration");
    tuples[key.strategy].insert(key.temperature);
  }
  CHECK(steps.size() == 9);
  CHECK(steps.count("nsa/ar") == 1);
  CHECK(tuples.count("nsa/d6k8n64/bfs/c1/F*") == 1);
  CHECK(tuples.count("nsa/d6k8n64/bfs/c1/(FRRR)*") == 1);
  for (const auto& [strategy, temperatures] : tuples) {
    CHECK(temperatures == std::set<double>{0.6, 1.0});
  }
  for (const PointKey& key : plan_of(shape(4096, 1 << 14)).points) {
    CHECK(key.temperature == 0.0);
  }
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
    // Groups of 2, 4 and 8 in both orders, of one schedule beside F*; chains of two lengths.
    CHECK(judged.sets[0].rows.size() == 1 + reuse_schedules(found).size() + 2 * 6 + 2);
    CHECK(judged.left_out.empty());
    CHECK(part.pair == pair.source.id);
    CHECK(judged.sets[0].asks == (part.name == "made"));
    CHECK(quality_points(judged, pair.source.id, part.split)[0].split == "test");
  }
  CHECK(parts[1].request.windows[0].group == "512 tokens");
  CHECK(parts[1].request.windows[0].name == "test/two.txt@0");

  // Beside the pair's folder lies no dense model; in it one that has its tokenizer.
  CHECK(dense_model_beside(pair).empty());
  test::TinyModel dense;
  dense.target.attention = AttentionKind::kDense;
  test::write_tiny_dense_pair(folder / "dense", dense, 2);
  CHECK(dense_model_beside(pair) == folder / "dense");
  CHECK(no_dense_model_because(pair, folder / "dense").empty());
  CHECK_THAT(no_dense_model_because(pair, folder / "p"), Catch::Contains("is no dense model"));
  fs::create_directories(folder / "other");
  fs::copy_file(folder / "dense/config.json", folder / "other/config.json");
  write_text(folder / "other/tokenizer.json", "{}");
  CHECK_THAT(no_dense_model_because(pair, folder / "other"), Catch::Contains("another tokenizer"));
  std::vector<std::string> left_out;
  const DenseModel twin{folder / "dense", {"dense", std::string(64, 'd')}};
  const std::vector<PairQualityPart> dense_parts = dense_quality(
      pair, twin, {.tasks = {folder / "set.json"}, .questions = 1, .threads = 1}, left_out);
  CHECK(left_out.empty());
  REQUIRE(dense_parts.size() == 2);
  for (const PairQualityPart& part : dense_parts) {
    CHECK(part.pair == twin.id);
    CHECK(part.configuration.find(R"("dense_of":")" + std::string(64, 'f')) != std::string::npos);
    CHECK(part.request.layer_map.size() == 3);  // aligned here: the folder has no map
    const LossyQualityReport judged = run_lossy_quality(part.request);
    CHECK(judged.sets.at(0).rows.size() == 1 + 4);
    CHECK(judged.sets[0].rows[0].strategy == "dense/ar");
    CHECK(judged.left_out.empty());
  }
  CHECK(dense_parts[1].configuration != parts[1].configuration);
  // A draft of one layer, which may not choose for others.
  test::write_tiny_dense_pair(folder / "shallow", dense, 1);
  const std::vector<PairQualityPart> resa =
      dense_quality(pair, {folder / "shallow", twin.id}, {.threads = 1}, left_out);
  REQUIRE(left_out.size() == 1);
  CHECK_THAT(left_out[0], Catch::Contains("SpecAttn") && Catch::Contains("leaves none"));
  CHECK(resa.at(0).request.strategies.size() == 2);

  PairSource one_split = pair.source;  // what made the schedules does not judge them
  std::erase_if(one_split.prompts, [](const PromptFile& p) { return p.split == "test"; });
  CHECK(pair_quality(PairAtHand(one_split, Backend::kCpu), {.reuse = {"(FR)*"}}).empty());
}

TEST_CASE("every strategy reads texts before any answers questions, few at a time") {
  const auto part = [](const char* pair, const char* name, std::size_t strategies) {
    PairQualityPart out{.pair = {pair, pair}, .name = name};
    for (std::size_t i = 0; i < strategies; ++i) {
      out.request.strategies.push_back(std::string(pair) + std::to_string(i));
    }
    if (out.name != "texts") {
      out.request.tasks = {out.name + ".json"};
    }
    out.configuration = std::string(pair) + " " + name;
    return out;
  };
  std::vector<std::string> order, strategies;
  for (const PairQualityPart& piece :
       quality_pieces({part("p", "recall", 13), part("p", "lines", 1), part("p", "texts", 30),
                       part("d", "recall", 2), part("d", "texts", 12)})) {
    CHECK(piece.request.strategies.size() <= 12);
    order.push_back(piece.configuration);
    if (piece.configuration == "p texts") {
      strategies.insert(strategies.end(), piece.request.strategies.begin(),
                        piece.request.strategies.end());
    }
  }
  CHECK(order == std::vector<std::string>{"p texts", "p texts", "p texts", "d texts", "p recall",
                                          "p recall", "d recall", "p lines"});
  CHECK(strategies == part("p", "texts", 30).request.strategies);
}
