// The sweep pair as a user meets it: a folder profiled on texts that are given, schedules
// calibrated, judged and planned with.
#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <set>

#include "model/words/chain_share.h"
#include "model/words/strategy.h"
#include "tests/end_to_end/pair_world.h"
#include "tests/support/errors.h"
#include "tests/support/pair_texts.h"
#include "tests/support/tiny_model.h"

using namespace versieve;
using namespace versieve::test;

TEST_CASE("a pair is profiled by its folder on texts that are given, and planned from that alone") {
  const test::TempFolder folder;
  test::write_tiny_pair(folder / "tiny", {});
  std::ofstream(folder / "a.txt") << std::string(700, 'a') + std::string(700, 'b');
  std::ofstream(folder / "sweep.json") << R"({"name": "small", "prompts": 1, "new_tokens": 4,
      "grids": [{"workload": "acceptance", "regime": "given", "context_len": 64,
                 "draft": ["d2k1n3", "d2k2n4"]}]})";
  const std::string database = (folder / "p.db").string();
  const std::string line = "profile --backend cpu --threads 1 --db " + database + " --sweep " +
                           (folder / "sweep.json").string() + " --model " +
                           (folder / "tiny").string() + " --prompts " + (folder / "a.txt").string();
  const test::CommandResult result = test::run_versieve(line + " --json");
  CAPTURE(result.err, result.out);
  REQUIRE(result.code == 0);
  const PairId tiny = engine::pair_identity(folder / "tiny");
  const nlohmann::json answer = nlohmann::json::parse(result.out);
  CHECK(answer["ok"] == 2);
  CHECK(answer["pair"]["name"] == "tiny");
  CHECK(answer["pair"]["sha256"] == tiny.sha256);
  {
    const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
    CHECK(store.pairs() == std::vector<PairId>{tiny});
    CHECK(store.points({.pair = tiny.sha256}).size() == 2);
  }
  const test::CommandResult again = test::run_versieve(line + " --resume --json");
  CHECK(nlohmann::json::parse(again.out)["skipped"] == 2);

  // Of the shipped times and that acceptance.
  const std::string fit = world().fit();
  const test::CommandResult planned =
      test::run_versieve("plan --json --hardware h200-sxm --class Strict --fit " + fit + " --db " +
                         database + " --model " + (folder / "tiny").string());
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  const nlohmann::json table = nlohmann::json::parse(planned.out);
  CHECK(table["buckets"] == nlohmann::json::parse("[[0,4096]]"));  // its positions
  CHECK(sources(table)["acceptance"] == "own");
  CHECK(table["provenance"]["acceptance_pair"] == "tiny");
  for (const nlohmann::json& baseline : table["baselines"]) {
    CHECK(baseline["expected_accepted"] < 2.5);  // an untrained pair's, not the byte pair's
  }
  // The database keeps what the pair is, so that nobody needs its folder.
  for (const std::string& name : {std::string("tiny"), tiny.sha256.substr(0, 8), tiny.sha256}) {
    const test::CommandResult by_name =
        test::run_versieve("plan --json --class Strict --fit " + fit + " --acceptance-db " +
                           database + " --model " + name);
    CAPTURE(name, by_name.err);
    REQUIRE(by_name.code == 0);
    const nlohmann::json same = nlohmann::json::parse(by_name.out);
    CHECK(same["entries"] == table["entries"]);
    CHECK(same["hardware"] == "h200-sxm");  // the fit's
    CHECK(same["model"] == "tiny");
    CHECK(sources(same)["pair_sha256"] == tiny.sha256);
  }
  const std::string by_db = "plan --fit " + fit + " --acceptance-db " + database + " --model ";
  test::check_refused(by_db + tiny.sha256.substr(0, 7), 2, "no pair of that name");
  test::check_refused(by_db + "tiny2", 2, "no pair of that name");
}

TEST_CASE("seconds that no quality run can take are refused with their range") {
  const std::string line = "profile --db none.db --sweep pair --quality-seconds ";
  for (const char* seconds : {"-1", "0", "1e9", "soon"}) {
    test::check_refused(line + seconds, 2, "not in range 0.001000 to 86400.000000");
  }
}

TEST_CASE("the sweep pair calibrates schedules, judges them and plans with them") {
  const test::TempFolder folder;
  const std::string tiny = (folder / "tiny").string();
  test::TinyModel model;
  model.target.layers = 2;
  std::iota(std::begin(model.draft.capture_layers), std::end(model.draft.capture_layers), 0);
  test::write_tiny_pair(tiny, model);
  test::write_text(folder / "a/calibration/one.txt", test::numbers(420));
  test::write_text(folder / "a/test/two.txt", test::numbers(840).substr(420));
  test::write_text(folder / "a/index.json", R"([
      {"file": "calibration/one.txt", "regime": "code", "split": "calibration"},
      {"file": "test/two.txt", "regime": "code", "split": "test"},
      {"file": "short.txt", "regime": "plan", "split": "test"}])");
  test::write_text(folder / "a/short.txt", test::numbers(260));  // 256 go on behind a context
  test::TinyModel dense;
  dense.target.attention = AttentionKind::kDense;
  test::write_tiny_dense_pair(folder / "dense", dense, 2);
  test::write_text(folder / "set.json", R"({"format": "versieve task set", "schema": 1,
      "name": "made", "contexts": [{"text": "one two three four five", "questions": [
      {"choices": [" six", " cats"], "answer": 0}]}]})");
  const std::string database = (folder / "p.db").string();
  const std::string line = "profile --backend cpu --threads 1 --sweep pair --db " + database +
                           " --model " + tiny + " --prompts " + (folder / "a").string() +
                           " --tasks " + (folder / "set.json").string() + " --questions 1 --json";
  // Quality first and alone, a piece and then the rest, then the points beside it.
  const test::CommandResult begun =
      test::run_versieve(line + " --quality only --quality-seconds 1e-3");
  CAPTURE(begun.err, begun.out);
  REQUIRE(begun.code == 0);
  const nlohmann::json first = nlohmann::json::parse(begun.out);
  CHECK(first["quality"]["rows"] > 0);
  CHECK(first["quality"]["not_begun"] > 0);
  const test::CommandResult judged = test::run_versieve(line + " --quality only --resume");
  CAPTURE(judged.err, judged.out);
  REQUIRE(judged.code == 0);
  nlohmann::json quality = nlohmann::json::parse(judged.out);
  CHECK(quality["quality"]["not_begun"] == 0);
  CHECK(quality["quality"]["skipped"] > 0);
  quality["quality"]["rows"] =
      quality["quality"]["rows"].get<std::int64_t>() + first["quality"]["rows"].get<std::int64_t>();
  CHECK(quality["points"] == 0);
  CHECK(quality["quality"]["left_out"].empty());
  const std::int64_t rows = quality["quality"]["rows"];
  CHECK(rows > 0);
  const test::CommandResult result = test::run_versieve(line + " --resume");
  CAPTURE(result.err, result.out);
  REQUIRE(result.code == 0);
  const nlohmann::json answer = nlohmann::json::parse(result.out);
  CHECK(answer["calibrated"] == quality["calibrated"]);
  CHECK(answer["quality"]["rows"] == 0);
  CHECK(answer["quality"]["skipped"] > 0);
  const PairId pair = engine::pair_identity(tiny);
  std::set<std::string> measured;
  {
    const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
    std::map<std::string, int> kinds;
    for (const db::StoredRun& run : store.runs()) {
      ++kinds[run.record.kind];
    }
    // Of quality questions and texts of the pair, in two pieces each, and of the dense model beside
    // it.
    CHECK(kinds == std::map<std::string, int>{{"calibration", 1}, {"pair", 1}, {"quality", 6}});
    std::set<std::string> shared;
    for (const db::StoredRun& run : store.runs()) {
      for (const db::Diagnostic& found : store.diagnostics(run.id)) {
        if (found.source == kChainShares) {
          for (const nlohmann::json& row : nlohmann::json::parse(found.text)) {
            shared.insert(row.at("strategy"));
          }
        }
      }
    }
    CHECK(shared.count("specattn:p0.9/d7k1n8/bfs/c1/F*") == 1);
    CHECK(shared.count("nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid") == 1);
    const PairId twin = engine::pair_identity(folder / "dense");
    CHECK(static_cast<std::int64_t>(store.quality().size()) == rows);
    for (const QualityPoint& row : store.quality()) {
      CHECK(row.pair == (row.strategy.rfind("nsa/", 0) == 0 ? pair : twin));
      measured.insert(row.strategy);
    }
    for (const char* strategy : {"resa:b16p0.1f32/ar", "specattn:p0.97/d7k1n8/bfs/c1/F*",
                                 "nsa/d7k1n8/bfs/c1/F*/sampling=sigmoid"}) {
      CHECK(measured.count(strategy) == 1);
    }
    for (const WorkloadKind kind :
         {WorkloadKind::kAttention, WorkloadKind::kDecode, WorkloadKind::kStep}) {
      CHECK(!store.points({.workload = kind, .pair = pair.sha256, .only_ok = true}).empty());
    }
    for (const PointMeasurement& point : store.points({.workload = WorkloadKind::kAcceptance})) {
      measured.insert(Strategy::parse(point.key.strategy).schedule);
    }
  }
  // What was not measured is said, a line a kind: here one regime's text is in one split alone.
  CHECK(answer["failed"] == 0);
  std::int64_t refused = 0;
  for (const nlohmann::json& kind : answer["refusals"]) {
    CHECK(kind["workload"] == "acceptance");
    CHECK(test::contains(kind["reason"], "prompt of regime"));
    refused += kind["points"].get<std::int64_t>();
  }
  CHECK(answer["refusals"].size() == 1);
  CHECK(refused == answer["refused"]);
  REQUIRE(answer["short_texts"].size() == 1);
  CHECK(test::contains(answer["short_texts"][0], "has 260 tokens of text: not measured at 128"));
  for (const nlohmann::json& own : answer["calibrated"]) {
    const std::string schedule = own["schedule"];
    CHECK(measured.count("nsa/ar/bfs/c1/" + schedule) == 1);  // judged
    CHECK(measured.count(schedule) == 1);
    CHECK(own["rise"] <= own["budget"]);
  }
  const test::CommandResult again = test::run_versieve(line + " --resume");
  CAPTURE(again.err, again.out);
  const nlohmann::json rest = nlohmann::json::parse(again.out);
  CHECK(rest["points"] == 0);
  CHECK(rest["calibrated"] == answer["calibrated"]);
  CHECK(rest["quality"]["rows"] == 0);
  CHECK(rest["quality"]["skipped"] > 0);

  // Sampled texts are other evidence, which greedy texts do not stand for.
  const std::string plan_line = "plan --hardware h200-sxm --class Strict --fit " + world().fit() +
                                " --acceptance-db " + database + " --model " + tiny +
                                " --temperature 0.75";
  test::check_refused(plan_line, 1, "no acceptance at temperature 0.75 of ");
  std::string sampled_line = line;
  const std::size_t asked = sampled_line.find(" --tasks");
  sampled_line.erase(asked, sampled_line.find(" --json") - asked);
  const test::CommandResult sampled = test::run_versieve(sampled_line + " --temperature 0.75");
  CAPTURE(sampled.err, sampled.out);
  REQUIRE(sampled.code == 0);
  CHECK(!nlohmann::json::parse(sampled.out).contains("quality"));
  const db::Store kept = db::Store::open(database, db::OpenMode::kReadOnly);
  std::set<double> temperatures;
  for (const PointMeasurement& point :
       kept.points({.workload = WorkloadKind::kAcceptance, .only_ok = true})) {
    temperatures.insert(point.key.temperature);
    CHECK((point.key.temperature == 0.0 || point.acceptance->walks.empty()));
  }
  CHECK(temperatures == std::set<double>{0.0, 0.75});
  const test::CommandResult at_temperature = test::run_versieve(plan_line + " --json");
  CAPTURE(at_temperature.err);
  REQUIRE(at_temperature.code == 0);
  const nlohmann::json sampled_table = nlohmann::json::parse(at_temperature.out);
  CHECK(sampled_table["temperature"] == 0.75);
  CHECK(sources(sampled_table)["acceptance"] == "own");
  test::check_refused(line.substr(0, line.find(" --json")) + " --temperature 0.75", 2,
                      "--temperature");

  const test::CommandResult planned =
      test::run_versieve("plan --json --hardware h200-sxm --class Reuse-only --fit " +
                         world().fit() + " --acceptance-db " + database + " --model " + tiny);
  CAPTURE(planned.err);
  REQUIRE(planned.code == 0);
  const nlohmann::json table = nlohmann::json::parse(planned.out);
  for (const nlohmann::json& entry : table["entries"]) {
    CHECK(measured.count(Strategy::parse(entry["strategy"].get<std::string>()).schedule) == 1);
  }
  const std::string remark = sources(table)["remark"];
  CHECK((remark.find("schedules calibrated on the pair") == 0) == !answer["calibrated"].empty());
  test::check_refused("profile --backend cpu --sweep quick --db " + database + " --questions 2", 2,
                      "of the sweep pair");
}

TEST_CASE("folders that are no pair's, prompts that are none and sweeps of no pair are refused") {
  const test::TempFolder folder;
  const std::string profile = "profile --backend cpu --db " + (folder / "x.db").string();
  const std::string pair = profile + " --sweep pair --model ";
  fs::create_directories(folder / "empty");
  test::check_refused(pair + (folder / "none").string(), 3, "is not a model directory");
  test::check_refused(pair + (folder / "empty").string(), 3, "config.json");
  test::write_tiny_pair(folder / "tiny", {});
  const std::string tiny = (folder / "tiny").string();
  test::check_refused(pair + tiny + " --prompts " + (folder / "none.txt").string(), 3,
                      "no such file or folder");
  test::check_refused(pair + tiny + " --prompts " + (folder / "empty").string(), 3,
                      "holds no prompts");
  test::check_refused(profile + " --sweep calibrate --model " + tiny, 2,
                      "measures no trained pair");
  test::TinyModel dense;
  dense.target.attention = AttentionKind::kDense;
  test::write_tiny_dense_pair(folder / "dense", dense, 1);
  test::check_refused(pair + (folder / "dense").string(), 2, "this one is dense");
  CHECK(!fs::exists(folder / "x.db"));
}
