// `versieve bench planner` as a user meets it: a table played by a pair on a CPU, the steps that a
// table rests on, and what is refused.
#include <catch2/catch.hpp>
#include <fstream>

#include "engine/analyse/plan/table_file.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_table.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

// A tiny pair, its table and two prompts, one of them messages.
struct World {
  World() {
    write_tiny_pair(folder / "model", {});
    std::ofstream(folder / "table.json") << versieve::engine::plan_table_json(tiny_table());
    fs::create_directory(folder / "prompts");
    std::ofstream(folder / "prompts/a.txt") << "The quick brown fox jumps over the lazy dog.";
    std::ofstream(folder / "prompts/b.txt") << std::string(100, 'b');
    fs::create_directory(folder / "empty");
  }

  std::string file(const std::string& name) const { return (folder / name).string(); }
  std::string bench(const std::string& options) const {
    return "bench planner --table " + file("table.json") + " --model " + file("model") +
           " --prompts " + file("prompts") +
           " --backend cpu --threads 1 --max-new-tokens 12 --rounds 1 " + options;
  }

  TempFolder folder;
};

const World& world() {
  static const World made;
  return made;
}

}  // namespace

TEST_CASE("a table is played by a pair, and the answer stands in a file too") {
  const std::string out = world().file("live.json");
  const CommandResult result = run_versieve(world().bench("--json --out " + out));
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json == nlohmann::json::parse(text_of_file(out)));
  CHECK(json.at("bench") == "planner");
  CHECK(json.at("backend") == "cpu");
  CHECK(json.at("rows").size() == 2 * 3 * 7);  // buckets, classes, contenders
  CHECK(json.at("divergences").is_array());
  CHECK(json.at("mean_gain").contains("best_r"));
  const CommandResult text = run_versieve(world().bench("--class Strict --buckets 64-256"));
  REQUIRE(text.code == 0);
  CHECK_THAT(text.out, Catch::Contains("64-256 tokens, Strict, 1 prompt") &&
                           Catch::Contains("mean gain over base") && Catch::Contains("best+R"));
  CHECK_THAT(text.err, Catch::Contains("prompt 1 of 1 played"));
}

TEST_CASE("the steps that a table rests on are written as a sweep that profile takes") {
  const std::string sweep = world().file("steps.json");
  const CommandResult result = run_versieve("bench planner --table " + world().file("table.json") +
                                            " --class Strict --list-steps " + sweep + " --json");
  REQUIRE(result.code == 0);
  CHECK(nlohmann::json::parse(result.out).at("steps") == 3 * 6);
  CHECK(nlohmann::json::parse(text_of_file(sweep)).at("grids").at(0).at("draft") == "ar");
  const CommandResult stream =
      run_versieve("bench planner --table " + world().file("table.json") +
                   " --class Strict --list-steps /dev/stdout");
  CHECK(stream.out == text_of_file(sweep));
  CHECK_THAT(stream.err, Catch::EndsWith(" --sweep FILE\n"));
  const CommandResult profile = run_versieve("profile --json --backend sim --shard 1/18 --db " +
                                             world().file("steps.db") + " --sweep " + sweep);
  CAPTURE(profile.err);
  CHECK(nlohmann::json::parse(profile.out).at("points") == 1);
}

TEST_CASE("a geometry plays a table by the law of its tokens a step, and says so") {
  const std::string bench = "bench planner --table " + world().file("table.json") +
                            " --model demo --acceptance law --class Strict --buckets 0-64 "
                            "--prompts-per-cell 1 --backend cpu --threads 1 --max-new-tokens 6 "
                            "--rounds 1 ";
  const CommandResult result = run_versieve(bench + "--json");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("acceptance").at("kind") == "synthetic");
  CHECK_THAT(json.at("acceptance").at("source").get<std::string>(), Catch::Contains("seed 0"));
  CHECK(json.at("rows").size() == 7);
  CHECK(json.at("verdicts").size() == 7);
  const CommandResult text = run_versieve(bench);
  CHECK_THAT(text.out, Catch::Contains("synthetic acceptance (law)"));
}

TEST_CASE("a geometry plays a table along the recorded walks of its pair") {
  versieve::PlanTable table = tiny_table();
  table.acceptance_pair = "demo-nsa";
  table.buckets = {{0, 4096}};
  table.classes = {versieve::PrecisionClass::kStrict};
  table.entries.resize(1);
  table.entries[0].evaluation = told("nsa/d6k6n32/bfs/c2e/F*");
  table.baselines = {
      {.bucket = 0, .role = "autoregressive", .evaluation = told("nsa/ar", 50.0, 1.0)},
      {.bucket = 0, .role = "fixed", .evaluation = told("nsa/d6k6n32/bfs/c1/F*")}};
  std::ofstream(world().file("recorded.json")) << versieve::engine::plan_table_json(table);
  const CommandResult result = run_versieve(
      "bench planner --model demo --table " + world().file("recorded.json") +
      " --acceptance recorded --db " VERSIEVE_SOURCE_DIR
      "/db/measured/h200.db --regime chat --prompts-per-cell 1 --max-new-tokens 8 --rounds 1 "
      "--backend cpu --json");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("acceptance").at("from") == "recorded");
  CHECK_THAT(json.at("acceptance").at("source").get<std::string>(), Catch::Contains("demo-nsa"));
  CHECK(json.at("prompts").at(0).at("tokens") == 2048);
  // All its tuples accept alike, whatever the groups: by the walk of one text.
  const nlohmann::json& rows = json.at("rows");
  CHECK(rows.at(1).at("tokens_a_step").get<double>() > 1.0);
  CHECK(rows.at(1).at("tokens_a_step") == rows.at(3).at("tokens_a_step"));
}

TEST_CASE("generate decodes at a geometry by a table's law, and refuses what it cannot mean") {
  const std::string tokens = world().file("tokens.json");
  std::ofstream(tokens) << "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
  const std::string generate =
      "generate --model demo --backend cpu --threads 1 --max-new-tokens 12 --seed 3 ";
  const std::string by_law = generate + "--table " + world().file("table.json") +
                             " --acceptance law --prompt-tokens " + tokens + " ";
  const CommandResult result = run_versieve(by_law + "--json");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("acceptance").at("kind") == "synthetic");
  CHECK(json.at("acceptance").at("from") == "law");
  CHECK(json.at("generated_tokens") == 12);
  CHECK(json.at("accepted_per_step_mean").get<double>() > 1.0);
  CHECK(json.at("text").is_null());
  const CommandResult text = run_versieve(by_law);
  CHECK_THAT(text.out, Catch::Contains("synthetic acceptance (law)"));
  check_refused(by_law + "--compare-ar", 2, "compared with none");
  check_refused(generate + "--strategy nsa/ar --prompt-tokens " + tokens, 2, "means nothing");
  check_refused(generate + "--strategy nsa/ar --acceptance law --prompt-tokens " + tokens, 2,
                "--table");
  check_refused(generate + "--table " + world().file("table.json") +
                    " --acceptance law --prompt-file " + world().file("prompts/a.txt"),
                2, "--prompt-tokens");
  check_refused(generate + "--table " + world().file("table.json") +
                    " --acceptance recorded --db " VERSIEVE_SOURCE_DIR
                    "/db/measured/h200.db --prompt-tokens " +
                    tokens,
                1, "no text's acceptance is known");
}

TEST_CASE("a table, a pair or prompts that are not there are refused in one sentence") {
  const std::string model = " --model " + world().file("model");
  const std::string prompts = " --prompts " + world().file("prompts");
  const std::string table = " --table " + world().file("table.json");
  check_refused("bench planner" + model + prompts, 2, "--table");
  check_refused("bench planner" + table + model, 2, "--prompts");
  check_refused("bench planner --table /nowhere/t.json" + model + prompts, 3, "/nowhere/t.json");
  check_refused("bench planner --table " + world().file("model/config.json") + model + prompts, 3,
                "config.json");
  check_refused("bench planner" + table + prompts + " --model /nowhere/m", 3, "/nowhere/m");
  check_refused("bench planner" + table + model + " --prompts /nowhere/p", 3, "/nowhere/p");
  check_refused("bench planner" + table + model + " --prompts " + world().file("empty"), 3,
                "holds no prompts");
  check_refused(world().bench("--buckets 0-65"), 2, "0-64");
  check_refused("bench planner" + table + " --model nsa-1b" + prompts, 2, "--acceptance");
  const std::string geometry = "bench planner" + table + " --model demo --backend cpu";
  check_refused(geometry + " --acceptance recorded", 2, "--db");
  check_refused(geometry + " --acceptance law --db " VERSIEVE_SOURCE_DIR "/db/measured/h200.db", 2,
                "--acceptance recorded");
  check_refused(geometry + " --acceptance measured", 2, "recorded or law");
  check_refused(geometry + " --acceptance law" + prompts, 2, "give no prompts");
  check_refused(geometry + " --acceptance recorded --db /nowhere/w.db", 3, "/nowhere/w.db");
  // Nobody recorded texts at such short contexts.
  check_refused(geometry + " --acceptance recorded --db " VERSIEVE_SOURCE_DIR
                           "/db/measured/h200.db --class Strict --buckets 0-64",
                1, "no text whose acceptance is known");
  check_refused(world().bench("--class Sparse"), 1, "no cell");
  check_refused(world().bench("--class Nonesuch"), 2, "Nonesuch");
  check_refused(world().bench("--out /nowhere/live.json"), 4, "/nowhere/live.json");
  CHECK(run_versieve("bench step --backend auto").code == 2);
}
