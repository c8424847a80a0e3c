// The plan that needs no flag: of the pair that ships in db/measured/h100.db, every entry that
// loses something is among what the sweep `pair` measures, and has its price; and every class runs
// on a pair that has what it needs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "db/evidence.h"
#include "engine/analyse/plan/pair_plan.h"
#include "engine/io/strict_json.h"
#include "engine/measure/sweep/pair_quality.h"
#include "model/plan/lossy_space.h"
#include "model/words/llm_shape.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"

using namespace versieve;

namespace {

const std::string kShipped = VERSIEVE_SOURCE_DIR "/db/measured/h100.db";
constexpr std::int64_t kLayers = 30;  // of the pair

// The strategies that a sweep with the newest calibration measures.
std::vector<std::string> measured_by_the_sweep() {
  const db::Store store = db::Store::open(kShipped, db::OpenMode::kReadOnly);
  const std::vector<KeptCalibration> kept = db::kept_calibrations(store);
  REQUIRE(!kept.empty());
  LlmShape target = named_llm_shape("demo");
  target.layers = kLayers;
  std::vector<std::string> texts;
  for (const Strategy& strategy : lossy_space(
           target,
           engine::reuse_schedules(engine::calibrated_schedules_in(kept.back().found, kShipped)))) {
    texts.push_back(strategy.text());
  }
  return texts;
}

// The shipped plan, a tiny NSA pair of as many layers, a dense pair whose draft is a model, and one
// without a draft.
struct World {
  World() : table((folder / "table.json").string()), prompt((folder / "prompt").string()) {
    const test::CommandResult made =
        test::run_versieve("plan --json --db " + kShipped + " --out " + table);
    CAPTURE(made.err);
    REQUIRE(made.code == 0);
    std::ofstream text(prompt);
    for (int line = 0; line < 8; ++line) {
      text << "Line " << line << " of what all of them read.\n";
    }
    text.close();
    test::TinyModel sparse;
    sparse.target.layers = kLayers;
    test::write_tiny_pair(folder / "nsa", sparse);
    test::TinyModel dense;
    dense.target.attention = AttentionKind::kDense;
    dense.target.layers = 4;
    test::write_tiny_dense_pair(folder / "dense", dense, 3);
    test::write_tiny_target(folder / "bare", dense);
    const test::CommandResult aligned =
        test::run_versieve("align --text " + prompt + " --backend cpu --threads 1 --model " +
                           model("dense") + " --out " + model("dense") + "/layer_map.json");
    CAPTURE(aligned.err);
    REQUIRE(aligned.code == 0);
  }

  std::string model(const std::string& name) const { return (folder / name).string(); }
  std::string generate(const std::string& name, const std::string& precision,
                       const std::string& more = "") const {
    return "generate --backend cpu --threads 1 --max-new-tokens 12 --table " + table + " --class " +
           precision + " --prompt-file " + prompt + " --model " + model(name) + more;
  }

  test::TempFolder folder;
  std::string table, prompt;
};

const World& world() {
  static const World made;
  return made;
}

// Of a class: its tuple that ran, on that pair.
void check_runs(const std::string& precision, const std::string& name, const std::string& more,
                const std::string& attention) {
  CAPTURE(precision, name);
  const test::CommandResult result =
      test::run_versieve(world().generate(name, precision, more + " --json"));
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = nlohmann::json::parse(result.out);
  CHECK(json.at("precision_class") == precision);
  CHECK(json.at("strategy").get<std::string>().rfind(attention, 0) == 0);
  CHECK(json.at("generated_tokens").get<std::int64_t>() >= 1);
  CHECK(json.at("guard").at("bucket") == nlohmann::json::array({0, 4096}));
  const nlohmann::json& remarks = json.at("remarks");
  CHECK(remarks.back().get<std::string>().find("planned for h100-sxm and ran on") !=
        std::string::npos);
  const bool sampled = more.find("--temperature 0.8") != std::string::npos;
  CHECK((result.out.find("planned for texts decoded greedily and ran at temperature 0.8") !=
         std::string::npos) == sampled);
  // The tiny pair is another than the one that the table is of.
  REQUIRE(remarks.size() >= 2);
  const std::string pair = name == "nsa" ? "smollm2-nsa (sha256 " : "smollm2-dense (sha256 ";
  CHECK(remarks.at(remarks.size() - 2).get<std::string>().find("was planned for " + pair) !=
        std::string::npos);
}

}  // namespace

TEST_CASE("every class of the shipped pair's plan runs on a pair that has what it needs") {
  const nlohmann::json plan = nlohmann::json::parse(engine::read_text_file(world().table, 1 << 26));
  std::set<std::string> ran;
  for (const char* precision : {"Strict", "Reuse-only", "Approx-only", "Approx+Reuse"}) {
    check_runs(precision, "nsa", "", "nsa/d");
    ran.insert(precision);
  }
  check_runs("Strict", "nsa", " --temperature 0.8", "nsa/d");
  check_runs("Sparse", "dense", "", "specattn:");
  ran.insert("Sparse");
  check_runs("Sparse+Rectify", "dense", "", "resa:");
  check_runs("Sparse+Rectify", "bare", "", "resa:");
  ran.insert("Sparse+Rectify");
  std::set<std::string> planned;
  for (const nlohmann::json& precision : plan.at("classes")) {
    planned.insert(precision.get<std::string>());
  }
  // Of no planned chain the sigmoids' sampler is faster than the exact one at this vocabulary.
  CHECK(planned.erase("Approx-sampling") == 1);
  test::check_refused(
      world().generate("nsa", "Approx-sampling", " --temperature 0.8"), 1,
      "Approx-sampling is empty: sampling=sigmoid ranks where its sampler is faster");
  CHECK(ran == planned);
  for (const nlohmann::json& condition : plan.at("run_conditions")) {
    CHECK(condition.at("condition").get<std::string>().find("no pair") == std::string::npos);
  }
}

TEST_CASE("a class of the shipped plan says in a sentence what a pair lacks to run it") {
  const auto refused = [](const std::string& name, const std::string& precision,
                          const std::string& because, const std::string& more = "") {
    test::check_refused(world().generate(name, precision, more), 1, because);
  };
  for (const char* precision : {"Sparse", "Sparse+Rectify"}) {
    refused("nsa", precision, "needs a dense target");
  }
  for (const char* precision : {"Strict", "Reuse-only", "Approx-only", "Approx+Reuse"}) {
    refused("dense", precision, "nsa needs a target trained with Native Sparse Attention",
            " --temperature 0.8");
  }
}

TEST_CASE("a bench of batches says that a pair's table is no geometry's") {
  test::check_refused("bench batch --backend cpu --table " + world().table, 2,
                      "the table was planned for the pair smollm2-nsa");
}

TEST_CASE("the README's drafts by requests at a time are those of the shipped plan") {
  const std::string path = (world().folder / "concurrency.json").string();
  const test::CommandResult made = test::run_versieve(
      "plan --class Strict --concurrency 1,4,16,64 --db " + kShipped + " --out " + path);
  CAPTURE(made.err);
  REQUIRE(made.code == 0);
  // By range and requests: "d7k6n64 2.99x", as `./run` cuts it from the plan's lines.
  const std::regex range_form("^([0-9]+-[0-9]+) tokens, Strict, by requests at a time$");
  const std::regex cell_form("^ *([0-9]+) at a time  [a-z]+/([^/]*)/.* ([0-9.]+x) ar  .*$");
  std::map<std::string, std::map<std::string, std::string>> planned;
  std::istringstream lines(made.out);
  std::string range;
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, range_form)) {
      range = match[1];
    } else if (!range.empty() && std::regex_match(line, match, cell_form)) {
      planned[range][match[1]] = match[2].str() + " " + match[3].str();
    }
  }
  REQUIRE(planned.size() >= 2);
  // The sentence below it: tokens a second of all and their interval, to hundreds.
  const auto hundreds = [](const std::string& text) {
    const long rounded = std::lround(std::stod(text) / 100.0);
    return std::to_string(rounded / 10) + "," + std::to_string(rounded % 10) + "00";
  };
  const std::regex rate_form("64 at a time +\\S+ +([0-9.]+) tok/s \\[([0-9.]+), ([0-9.]+)\\]");
  REQUIRE(std::regex_search(made.out, match, rate_form));
  CHECK(test::text_of_file(VERSIEVE_SOURCE_DIR "/README.md")
            .find(hundreds(match[1]) + " tokens a second in all [" + hundreds(match[2]) + ", " +
                  hundreds(match[3]) + "]") != std::string::npos);
  const std::regex said_form(
      "\n  ([0-9]+-[0-9]+) +(\\S+ \\S+x) +(\\S+ \\S+x) +(\\S+ \\S+x) +(\\S+ \\S+x)\n");
  std::string page = test::text_of_file(VERSIEVE_SOURCE_DIR "/README.md");
  int rows = 0;
  for (; std::regex_search(page, match, said_form); ++rows) {
    std::map<std::string, std::string>& row = planned[match[1]];
    CAPTURE(match[1].str());
    CHECK(row["1"] == match[2]);
    CHECK(row["4"] == match[3]);
    CHECK(row["16"] == match[4]);
    CHECK(row["64"] == match[5]);
    page = "\n" + match.suffix().str();
  }
  CHECK(rows == 2);
}

TEST_CASE("the README says which goals the shipped fit misses, and of when the points are") {
  const std::string page = test::text_of_file(VERSIEVE_SOURCE_DIR "/README.md");
  const test::CommandResult fit = test::run_versieve("fit --quick --db " + kShipped);
  REQUIRE(fit.code == 0);
  const std::regex missed_form(
      "- of each number of requests .* ([0-9.]+) % to ([0-9.]+) % "
      "\\(3\\) +NOT met");
  std::smatch match;
  REQUIRE(std::regex_search(fit.out, match, missed_form));
  CHECK(page.find("Not reached: 85 to 95 % of each number of requests at a time (" +
                  match[1].str() + " to " + match[2].str() + " % of the three") !=
        std::string::npos);
  const std::string others = match.prefix().str() + match.suffix().str();
  CHECK(others.find("NOT met") == std::string::npos);

  std::string first = "9", last;
  for (const auto& entry :
       std::filesystem::directory_iterator(VERSIEVE_SOURCE_DIR "/db/measured")) {
    if (entry.path().extension() != ".db") {
      continue;
    }
    for (const db::StoredRun& run :
         db::Store::open(entry.path().string(), db::OpenMode::kReadOnly).runs()) {
      first = std::min(first, run.record.started_utc.substr(0, 10));
      last = std::max(last, run.record.started_utc.substr(0, 10));
    }
  }
  const std::string until = last.substr(0, 8) == first.substr(0, 8) ? last.substr(8) : last;
  CHECK(page.find("CUDA 13.0, " + first + " to " + until + ".") != std::string::npos);
}

TEST_CASE("the README says how many cells of the shipped plan are played") {
  const test::CommandResult played =
      test::run_versieve("replay --json --table " + world().table + " --db " + kShipped);
  CAPTURE(played.err);
  REQUIRE(played.code == 0);
  const nlohmann::json json = nlohmann::json::parse(played.out);
  REQUIRE(json.at("played_by_first") == 1);
  std::string page = test::text_of_file(VERSIEVE_SOURCE_DIR "/README.md");
  std::replace(page.begin(), page.end(), '\n', ' ');
  CHECK(page.find("(" + json.at("played").dump() + " of " + json.at("cells").dump() +
                  " cells as shipped, one by its first") != std::string::npos);
}

TEST_CASE("every lossy entry of the shipped pair's plan is one that the sweep measures") {
  const std::string& table = world().table;
  const std::vector<std::string> measured = measured_by_the_sweep();
  const nlohmann::json plan = nlohmann::json::parse(engine::read_text_file(table, 1 << 26));
  std::int64_t lossy = 0;
  for (const nlohmann::json& entry : plan.at("entries")) {
    const Strategy strategy = Strategy::parse(entry.at("strategy").get<std::string>());
    if (strategy.precision() == PrecisionClass::kStrict) {
      CHECK(entry.at("price").at("from") == "construction");
      continue;
    }
    CAPTURE(strategy.text());
    ++lossy;
    CHECK(std::count(measured.begin(), measured.end(), measured_for(strategy).text()) == 1);
    CHECK(!entry.at("price").is_null());
    CHECK(entry.at("price_unmeasured").is_null());
  }
  CHECK(lossy > 100);
}
