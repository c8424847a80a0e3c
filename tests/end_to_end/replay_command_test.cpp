// `versieve replay` and `generate --table` on the measurements that ship, as a user meets them.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"

using namespace versieve::test;
namespace fs = std::filesystem;

namespace {

const std::string kShipped = VERSIEVE_SOURCE_DIR "/db/measured/h200.db";

// A table made from the shipped measurements, once.
const std::string& table() {
  static const TempFolder folder;
  static const std::string path = [] {
    const std::string out = (folder / "table.json").string();
    const CommandResult plan =
        run_versieve("plan --db " + kShipped + " --hardware h200-sxm --out " + out);
    REQUIRE(plan.code == 0);
    return out;
  }();
  return path;
}

std::string replay(const std::string& options) {
  return "replay --table " + table() + " --db " + kShipped + " " + options;
}

}  // namespace

TEST_CASE("the shipped requests are played through a table of the shipped measurements") {
  const CommandResult result = run_versieve(replay("--json --sweep-guard"));
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  REQUIRE(!json.at("rows").empty());
  for (const nlohmann::json& row : json.at("rows")) {
    CAPTURE(row.dump());
    CHECK(row.at("requests").get<int>() >= 1);
    CHECK(row.at("static_best").get<double>() > row.at("no_speculation").get<double>());
    CHECK(row.at("static_best").get<double>() > row.at("base").get<double>());
    CHECK(row.at("best_p").get<double>() > 0.9 * row.at("static_best").get<double>());
    CHECK(row.at("passed_over").size() + 1 == row.at("rank"));
  }
  for (const nlohmann::json& gap : json.at("gaps")) {
    CHECK(!gap.at("reason").get<std::string>().empty());
  }
  REQUIRE(json.at("settings").size() == 9);
  CHECK(json.at("settings")[0].at("gain").get<double>() ==
        Approx(json.at("mean_gain").at("best_r").get<double>()));
}

// The plan that `./run` makes and plays without a GPU.
TEST_CASE(
    "of the plan that ./run makes every cell with a recorded tuple is played, the rest named") {
  const TempFolder folder;
  const std::string measured = VERSIEVE_SOURCE_DIR "/db/measured/h100.db";
  const std::string out = (folder / "t.json").string();
  REQUIRE(run_versieve("plan --db " + measured + " --hardware h100-sxm --out " + out).code == 0);
  const CommandResult result = run_versieve("replay --json --table " + out + " --db " + measured);
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("rows").size() + json.at("gaps").size() == json.at("cells"));
  bool strict = false;
  for (const nlohmann::json& row : json.at("rows")) {
    CAPTURE(row.dump());
    CHECK(row.at("passed_over").size() + 1 == row.at("rank"));
    CHECK(row.at("static_best") > row.at("no_speculation"));
    strict = strict || row.at("class") == "Strict";
  }
  CHECK(strict);
  for (const nlohmann::json& gap : json.at("gaps")) {
    CHECK(gap.at("class") != "Strict");
  }
}

TEST_CASE("what a replay lacks can be recorded by the sweep that it writes") {
  const TempFolder folder;
  const std::string sweep = (folder / "missing.json").string();
  // No calibration text has walks of a plan's deepest trees.
  const CommandResult result =
      run_versieve(replay("--split calibration --regime code --record " + sweep));
  REQUIRE(result.code == 0);
  REQUIRE(fs::exists(sweep));
  const nlohmann::json json = nlohmann::json::parse(text_of_file(sweep));
  CHECK(json.at("name") == "walks-calibration");
  CHECK(json.at("grids").at(0).at("regime") == "code");
  CHECK_THAT(result.out, Catch::EndsWith(" --sweep " + sweep + "\n"));
  const CommandResult stream =
      run_versieve(replay("--split calibration --regime code --record /dev/stdout"));
  CHECK(stream.out == text_of_file(sweep));
  CHECK_THAT(stream.err, Catch::EndsWith(" --sweep FILE\n"));
}

TEST_CASE("a replay without a table, without walks or of an unknown split is refused") {
  check_refused("replay --table /nowhere/t.json --db " + kShipped, 3, "/nowhere/t.json");
  check_refused("replay --table " + table() + " --db /nowhere/p.db", 3, "/nowhere/p.db");
  check_refused(
      "replay --table " + table() + " --db " VERSIEVE_SOURCE_DIR "/tests/data/schema_v2.db", 1,
      "--record");
  CHECK(run_versieve(replay("--split train")).code == 2);
  CHECK(run_versieve(replay("--tokens -1")).code == 2);
}

TEST_CASE(
    "the guard's constants are options of plan, replay and generate, refused where they cannot "
    "be") {
  const TempFolder folder;
  const std::string out = (folder / "t.json").string();
  const std::string plan = "plan --db " + kShipped +
                           " --hardware h200-sxm --buckets 0-4096 --out " + out +
                           " --guard-constants ";
  REQUIRE(run_versieve(plan + "alpha=0.3,max_transitions=1").code == 0);
  const nlohmann::json guard = nlohmann::json::parse(text_of_file(out)).at("guard");
  CHECK(guard.at("alpha") == 0.3);
  CHECK(guard.at("max_transitions") == 1);
  CHECK(guard.at("warmup") == 8);
  const CommandResult swept =
      run_versieve(replay("--json --sweep-guard --guard-constants hysteresis=50"));
  REQUIRE(swept.code == 0);
  const nlohmann::json settings = nlohmann::json::parse(swept.out).at("settings");
  CHECK(settings.at(0).at("guard").at("hysteresis") == 50);
  CHECK(settings.at(0).at("transitions").get<int>() <= settings.at(7).at("transitions").get<int>());
  for (const char* bad : {"alpha=0", "alpha=2", "alpha=nan", "drop_ratio=-1", "drop_ratio=inf",
                          "warmup=-1", "warmup=1.5", "hysteresis=0", "max_transitions=-1",
                          "patience=3", "alpha=0.1,alpha=0.2", "alpha", "''", "alpha=0.1,"}) {
    CAPTURE(bad);
    check_refused(replay(std::string("--guard-constants ") + bad), 2, "guard");
    check_refused(plan + bad, 2, "guard");
  }
  check_refused("generate --model /nowhere --prompt-file /nowhere --guard-constants alpha=0.1", 2,
                "--table");
  check_refused(
      "generate --model /nowhere --prompt-file /nowhere --guard-constants alpha=9 --table " +
          table(),
      2, "alpha");
}

TEST_CASE("a text is generated by a table, and the text is that of plain decoding") {
  const std::string arguments =
      "generate --backend cpu --model " VERSIEVE_SOURCE_DIR
      "/engine/demo/nsa --prompt-file " VERSIEVE_SOURCE_DIR
      "/engine/demo/prompts/test/code-400-0.txt --max-new-tokens 40 --compare-ar --json --table " +
      table();
  const CommandResult result = run_versieve(arguments + " --guard ranked");
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("identical_to_ar") == true);
  CHECK(json.at("guard").at("rule") == "ranked");
  CHECK(json.at("guard").at("bucket") == nlohmann::json({0, 4096}));
  CHECK(run_versieve(arguments + " --strategy nsa/ar").code == 2);
  CHECK(run_versieve(arguments + " --class Sparse").code == 1);
}
