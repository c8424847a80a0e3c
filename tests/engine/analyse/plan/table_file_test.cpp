// Planner tables as files: JSON and CSV come back as they went, the C++ header compiles alone and
// says the same, foreign files are refused in a sentence.
#include "engine/analyse/plan/table_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/words/error.h"
#include "tests/support/paths.h"
#include "tests/support/planned.h"

using namespace versieve;
using namespace versieve::engine;
namespace fs = std::filesystem;

namespace {

// Without rows of one class, as a target has them that cannot run it.
PlanTable table() {
  PlanTable t =
      plan(synthetic::fitted_by_hand(), hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), {});
  t.entries.erase(std::remove_if(t.entries.begin(), t.entries.end(),
                                 [](const PlanEntry& e) {
                                   return e.precision == PrecisionClass::kApproxReuse;
                                 }),
                  t.entries.end());
  t.entries[1].baseline = "fixed";
  for (std::int64_t bucket = 0; bucket < 4; ++bucket) {
    t.unavailable.push_back(
        {bucket, PrecisionClass::kApproxReuse, "Approx+Reuse is not yet available"});
  }
  return t;
}

fs::path folder() {
  const fs::path path = fs::path(VERSIEVE_BINARY_DIR) / "test_engine_plan";
  fs::create_directories(path);
  return path;
}

std::string written(const std::string& name, const std::string& text) {
  const fs::path path = folder() / name;
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      fields.back() += doubled ? "\"" : "";
      i += doubled ? 1 : 0;
      quoted = doubled ? quoted : !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

void check_refused(const std::string& name, const std::string& text, const std::string& part) {
  const std::string path = written(name, text);
  try {
    read_plan_table(path);
    FAIL("accepted " + name);
  } catch (const Error& e) {
    CAPTURE(e.what());
    CHECK(e.code() == ExitCode::kBadInput);
    CHECK(std::string(e.what()).find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a table comes back from JSON as it went") {
  const std::string text = plan_table_json(table());
  CHECK(plan_table_json(read_plan_table(written("table.json", text))) == text);
}

TEST_CASE("the JSON form has the promised keys") {
  const nlohmann::json json = nlohmann::json::parse(plan_table_json(table()));
  for (const char* key : {"schema", "hardware", "model", "provenance", "buckets", "classes",
                          "guard", "entries", "unavailable", "baselines"}) {
    CAPTURE(key);
    CHECK(json.contains(key));
  }
  for (const char* key : {"alpha", "drop_ratio", "warmup", "hysteresis", "max_transitions"}) {
    CHECK(json["guard"].contains(key));
  }
  for (const nlohmann::json& entry : json["entries"]) {
    for (const char* key : {"bucket", "class", "rank", "strategy", "expected_accepted",
                            "step_latency_us", "throughput", "interval", "source", "why"}) {
      CHECK(entry.contains(key));
    }
    CHECK(entry["interval"].size() == 2);
  }
  CHECK(json["unavailable"][0]["status"] == "not yet available");
  CHECK(json["buckets"] ==
        nlohmann::json::parse("[[0,4096],[4096,8192],[8192,12288],[12288,16384]]"));
}

TEST_CASE("CSV carries every entry, numbers exactly") {
  PlanTable t = table();
  t.entries[0].note = "a \"quoted\", note";
  std::istringstream text(plan_table_csv(t));
  std::vector<std::string> rows;
  for (std::string line; std::getline(text, line);) {
    if (line[0] != '#') {
      rows.push_back(line);
    }
  }
  REQUIRE(rows.size() == t.entries.size() + 1);
  CHECK(csv_fields(rows[0]).size() == 19);
  for (std::size_t i = 0; i < t.entries.size(); ++i) {
    const std::vector<std::string> f = csv_fields(rows[i + 1]);
    REQUIRE(f.size() == 19);
    const PlanEntry& e = t.entries[i];
    CHECK(std::stoll(f[0]) == t.buckets[static_cast<std::size_t>(e.bucket)].low);
    CHECK(f[2] == name_of(e.precision));
    CHECK(f[4] == e.evaluation.strategy.text());
    CHECK(std::strtod(f[5].c_str(), nullptr) == e.evaluation.expected_accepted);
    CHECK(std::strtod(f[6].c_str(), nullptr) == e.evaluation.cost->time_us);
    CHECK(std::strtod(f[7].c_str(), nullptr) == e.evaluation.throughput);
    CHECK(f[17] == e.note);
    CHECK(f[18] == e.baseline);
  }
}

TEST_CASE("the C++ header compiles alone and says the same") {
  const PlanTable t = table();
  written("plan.h", plan_table_cpp(t));
  std::ostringstream program;
  program << "#include \"plan.h\"\n#include <cstring>\n"
          << "static_assert(versieve_plan::kEntries.size() == " << t.entries.size() << ");\n"
          << "int main() { return std::strcmp(versieve_plan::kEntries[0].strategy, \""
          << t.entries[0].evaluation.strategy.text() << "\"); }\n";
  written("plan_user.cpp", program.str());
  const std::string build = std::string(VERSIEVE_CXX) + " -std=c++17 -Wall -Wextra -Werror -o " +
                            (folder() / "plan_user").string() + " " +
                            (folder() / "plan_user.cpp").string();
  REQUIRE(std::system(build.c_str()) == 0);
  CHECK(std::system((folder() / "plan_user").string().c_str()) == 0);
}

TEST_CASE("every form says which classes have no rows and where the numbers come from") {
  const PlanTable t = table();
  for (const std::string& text : {plan_table_csv(t), plan_table_cpp(t), plan_table_text(t, 3)}) {
    CHECK(text.find("not yet available") != std::string::npos);
    CHECK(text.find("NVIDIA H200") != std::string::npos);
    CHECK(text.find("demo-nsa") != std::string::npos);
  }
}

TEST_CASE("foreign, older and broken tables are refused in a sentence") {
  const std::string good = plan_table_json(table());
  nlohmann::json json = nlohmann::json::parse(good);
  check_refused("empty.json", "", "empty.json");
  check_refused("half.json", good.substr(0, good.size() / 2), "half.json");
  check_refused("list.json", "[]", "list.json");
  check_refused("other.json", "{\"schema\": 1}", "not a planner table");
  json["schema"] = 99;
  check_refused("newer.json", json.dump(), "schema 99");
  json = nlohmann::json::parse(good);
  json["entries"][0].erase("throughput");
  check_refused("missing.json", json.dump(), "a key is missing");
  json = nlohmann::json::parse(good);
  json["entries"][0]["bucket"] = 17;
  check_refused("bucket.json", json.dump(), "bucket");
  json = nlohmann::json::parse(good);
  json["entries"][0]["strategy"] = "nsa/what";
  check_refused("strategy.json", json.dump(), "nsa/what");
  json = nlohmann::json::parse(good);
  json["entries"][0]["source"] = "guessed";
  check_refused("source.json", json.dump(), "guessed");
  json = nlohmann::json::parse(good);
  json["entries"][0]["step_latency_us"] = 0.0;
  check_refused("time.json", json.dump(), "step time");
  json = nlohmann::json::parse(good);
  json["guard"]["alpha"] = 0.0;
  check_refused("guard.json", json.dump(), "alpha");
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json other = nlohmann::json::parse(good);
    other[nlohmann::json::json_pointer(pointer)] = value;
    return other.dump();
  };
  check_refused("wrapped.json", changed("/provenance/fit_points", 9223372036854775808ULL),
                "where an integer is needed");
  check_refused("cut.json", changed("/buckets/0/1", 1e308), "where an integer is needed");
  check_refused("rank.json", changed("/entries/0/rank", 0), "rank 0");
  check_refused("upside.json", changed("/buckets/1/1", 100), "ascending");
  check_refused("overlap.json", changed("/buckets/1/0", 100), "ascending");
  check_refused("below.json", changed("/buckets/0/0", -1), "ascending");
  CHECK_THROWS_AS(read_plan_table((folder() / "absent.json").string()), Error);
}

TEST_CASE("an unknown format is a usage error") {
  const PlanTable t = table();
  const auto code_of = [&](const char* format) {
    try {
      exported_table(t, format);
    } catch (const Error& e) {
      return e.code();
    }
    return ExitCode::kDone;
  };
  CHECK(code_of("csv") == ExitCode::kDone);
  CHECK(code_of("vllm") == ExitCode::kDone);
  CHECK(code_of("xml") == ExitCode::kUsage);
}
