// The plan that needs no flag: of the pair that ships in db/measured/h100.db, every entry that
// loses something is among what the sweep `pair` measures, and has its price.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "db/evidence.h"
#include "engine/analyse/plan/pair_plan.h"
#include "engine/io/strict_json.h"
#include "engine/measure/sweep/pair_quality.h"
#include "model/plan/lossy_space.h"
#include "model/words/llm_shape.h"
#include "tests/end_to_end/refusals.h"
#include "tests/support/paths.h"

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

}  // namespace

TEST_CASE("every lossy entry of the shipped pair's plan is one that the sweep measures") {
  const test::TempFolder folder;
  const std::string table = (folder / "table.json").string();
  const test::CommandResult result =
      test::run_versieve("plan --json --db " + kShipped + " --out " + table);
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
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
