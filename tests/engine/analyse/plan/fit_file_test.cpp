// A fit as a file: the model that comes back plans the same, the promised keys are there.
#include "engine/analyse/fit/fit_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/analyse/plan/table_file.h"
#include "model/words/error.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;
namespace fs = std::filesystem;

namespace {

// The trees of all-F single queries, and what one of them keeps in approximate groups.
std::vector<PointMeasurement> accepted_points() {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(0.8, 0.9, 0.98);
  const std::vector<PointMeasurement> plain = points;
  for (PointMeasurement m : plain) {
    if (m.key.strategy == "nsa/d7k1n8/bfs/c1/F*") {
      m.key.strategy = "nsa/d7k1n8/bfs/c8a/F*";
      m.acceptance->accepted_per_step *= 0.9;
      points.push_back(m);
    }
  }
  return points;
}

const FitReport& report() {
  static const FitReport instance = [] {
    const synthetic::Plan plan;
    const HardwareSpec& h200 = hardware_by_key("h200-sxm");
    std::vector<PointMeasurement> points = synthetic::attention_points(plan, h200);
    for (const std::vector<PointMeasurement>& more :
         {synthetic::step_points(plan, h200), accepted_points()}) {
      points.insert(points.end(), more.begin(), more.end());
    }
    return fit_cost_model(points, "NVIDIA H200", h200, {"run-a"}, {});
  }();
  return instance;
}

std::string written(const std::string& name, const std::string& text) {
  const fs::path folder = fs::path(VERSIEVE_BINARY_DIR) / "test_engine_plan";
  fs::create_directories(folder);
  std::ofstream(folder / name) << text;
  return (folder / name).string();
}

// Every tuple has its row.
std::string table_of(const FittedModel& model) {
  PlanOptions options;
  options.ranks = 1000000;
  return plan_table_json(
      plan(model, hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), options));
}

}  // namespace

TEST_CASE("a fit read back from its file plans the same table") {
  const FittedModel back = read_fit(written("fit.json", fit_json(report())));
  CHECK(table_of(back) == table_of(report().model));
  CHECK(back.acceptance.variants.size() == 1);
}

TEST_CASE("a step in a fit's file says what its draft proposes, where not all tokens") {
  FitReport some = report();
  REQUIRE(some.model.steps.size() > 1);
  some.model.steps[1].draft_vocab = 32000;
  some.model.steps[1].geometry = "nsa-8b";
  some.model.steps[1].overlap = 0.8125;
  some.model.steps[1].temperature = 0.6;
  const nlohmann::json file = nlohmann::json::parse(fit_json(some));
  CHECK(!file["steps"][0].contains("draft_vocab"));
  CHECK(!file["steps"][0].contains("temperature"));
  CHECK(file["steps"][1]["draft_vocab"] == 32000);
  const FittedModel back = read_fit(written("some.json", file.dump()));
  CHECK(back.steps[0].draft_vocab == 0);
  CHECK(back.steps[1].draft_vocab == 32000);
  CHECK(back.steps[0].geometry == "nsa-1b");
  CHECK(back.steps[1].geometry == "nsa-8b");
  CHECK(back.steps[1].overlap == 0.8125);
  CHECK(back.steps[0].temperature == 0.0);
  CHECK(back.steps[1].temperature == 0.6);
}

TEST_CASE("a plan from a whole fit quotes measured tuples and predicts the others") {
  const nlohmann::json table = nlohmann::json::parse(table_of(report().model));
  std::size_t measured = 0;
  std::size_t predicted = 0;
  for (const nlohmann::json& entry : table["entries"]) {
    measured += entry["source"] == "measured" ? 1 : 0;
    predicted += entry["source"] == "predicted" ? 1 : 0;
  }
  CHECK(measured > 0);
  CHECK(predicted > 0);
}

TEST_CASE("the JSON of a fit has the promised keys") {
  const nlohmann::json json = nlohmann::json::parse(fit_json(report()));
  for (const char* key :
       {"device", "points_train", "points_holdout", "dram_bytes", "latency", "interval_coverage_90",
        "kendall_tau", "top1_regret", "parameters", "by_regime", "by_term"}) {
    CAPTURE(key);
    CHECK(json.contains(key));
  }
  CHECK(json["latency"]["median_ape"].is_number());
  CHECK(json["dram_bytes"]["p90_ape"].is_number());
  CHECK(json["parameters"].size() == kParameterCount);
  CHECK(json["parameters"][0].contains("unit"));
  CHECK(json["points_train"].get<int>() + json["points_holdout"].get<int>() == json["points"]);
  const std::string text = fit_text(report());
  CHECK(text.find("NVIDIA H200") != std::string::npos);
  CHECK(text.find("nsa_selected") != std::string::npos);
}

TEST_CASE("what was not measured is null, not zero") {
  std::vector<PointMeasurement> points =
      synthetic::attention_points({}, hardware_by_key("h200-sxm"));
  for (PointMeasurement& m : points) {
    for (RangeMeasurement& range : m.ranges) {
      range.counters.clear();
    }
  }
  const nlohmann::json json = nlohmann::json::parse(
      fit_json(fit_cost_model(points, "NVIDIA H200", hardware_by_key("h200-sxm"), {}, {})));
  CHECK(json["dram_bytes"]["median_ape"].is_null());
  CHECK(json["latency"]["median_ape"].is_number());
}

TEST_CASE("fits of another schema and other files are refused") {
  nlohmann::json json = nlohmann::json::parse(fit_json(report()));
  json["schema"] = kFitSchema + 1;
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[1]"), json.dump()}) {
    try {
      read_fit(written("bad_fit.json", text));
      FAIL("accepted " + text.substr(0, 40));
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::kBadInput);
    }
  }
  json["schema"] = kFitSchema;
  json["parameters"].erase(0);
  CHECK_THROWS_AS(read_fit(written("bad_fit.json", json.dump())), Error);
}

TEST_CASE("a word that no fit has is refused with the file, the word and those that there are") {
  for (const auto& [key, known] : {std::pair{"dtype", "bf16, f32"}, {"launch", "stream, graph"}}) {
    nlohmann::json json = nlohmann::json::parse(fit_json(report()));
    json[key] = "fp4";
    try {
      read_fit(written("bad_fit.json", json.dump()));
      FAIL("accepted");
    } catch (const Error& e) {
      CHECK(e.code() == ExitCode::kBadInput);
      for (const char* part : {"bad_fit.json: unknown", "'fp4'", known}) {
        CAPTURE(e.what(), part);
        CHECK(std::string(e.what()).find(part) != std::string::npos);
      }
    }
  }
}

TEST_CASE("what only an earlier program's fit holds is no matter") {
  nlohmann::json json = nlohmann::json::parse(fit_json(report()));
  json["parameters"].push_back({{"name", "opened_dirty"},
                                {"value", 1.0},
                                {"low", 1.0},
                                {"high", 1.0},
                                {"unit", "B"},
                                {"informed", false},
                                {"at_bound", false}});
  json["dense_split"] = true;
  json["dram_opened_bytes"] = nullptr;
  CHECK(read_fit(written("old_fit.json", json.dump())).device == "NVIDIA H200");
}
