// A planner table's drafts by requests at a time in the words of serving engines.
#include "engine/analyse/serve/planned_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "engine/analyse/serve/serving_deployment.h"
#include "engine/analyse/serve/serving_file.h"
#include "model/words/error.h"
#include "tests/engine/analyse/serve/planned_case.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const PlanTable& table() {
  static const PlanTable once = test::planned_table();
  return once;
}

}  // namespace

TEST_CASE("a planned schedule has a cell for each bucket and number of requests") {
  const ServingSchedule schedule = planned_schedule(table());
  REQUIRE(schedule.cells.size() == 6);
  for (std::size_t i = 0; i < schedule.cells.size(); ++i) {
    const ServingCell& cell = schedule.cells[i];
    const std::int64_t low[] = {1, 2, 9}, high[] = {1, 8, 64};
    CHECK(cell.requests_low == low[i % 3]);
    CHECK(cell.requests_high == high[i % 3]);
    const PlanTable& of = *by_concurrency(table())[i % 3];
    const PlanEntry* best = best_of(of, static_cast<std::int64_t>(i / 3), PrecisionClass::kStrict);
    REQUIRE(best != nullptr);
    CHECK(cell.best().draft == best->evaluation.strategy.draft);
    CHECK(cell.best().gain() == Approx(best->gain_over_ar));
    // Plain decoding and a chain are there, for engines of chains.
    CHECK(std::any_of(cell.choices.begin(), cell.choices.end(),
                      [](const ServingChoice& c) { return !c.draft.speculates(); }));
    CHECK(std::any_of(cell.choices.begin(), cell.choices.end(),
                      [](const ServingChoice& c) { return c.draft.width == 1; }));
  }
}

TEST_CASE("it is written and read back as schedules of servers' own evidence are") {
  const test::TempFolder folder;
  const std::string text = serving_schedule_json(planned_schedule(table()));
  const std::string path = (folder / "s.json").string();
  std::ofstream(path) << text;
  CHECK(serving_schedule_json(read_serving_schedule(path)) == text);
  CHECK(text.find("\"times\": \"model\"") != std::string::npos);
  CHECK(text.find("\"tokens_source\": \"planned\"") != std::string::npos);
}

TEST_CASE("engines get a planned schedule in their own words, with what it rests on") {
  const ServingSchedule schedule = planned_schedule(table());
  const ServingFiles vllm = serving_files(schedule, "vllm", {.context = 2000, .draft_model = "/d"});
  REQUIRE(vllm.speculates);
  CHECK(vllm.settings.find("num_speculative_tokens_per_batch_size: [[1, 1, ") != std::string::npos);
  CHECK(vllm.settings.find("the planner's, of this") != std::string::npos);
  CHECK(vllm.settings.find("contexts of 0-4096 tokens") != std::string::npos);
  for (const char* format : {"sglang", "trtllm"}) {
    CHECK(serving_files(schedule, format, {.draft_model = "/d", .tiers_file = "/t.json"})
              .settings.find("the planner's, of this") != std::string::npos);
  }
}

TEST_CASE("what no schedule is made of is refused with the reason") {
  PlanTable own_model = table();
  own_model.draft_is_model = true;
  CHECK_THROWS_AS(planned_schedule(own_model), Error);
  CHECK_THROWS_AS(planned_schedule(test::planned_table({.classes = {PrecisionClass::kApproxOnly}})),
                  Error);
}

TEST_CASE("requests beyond what memory holds are in no cell") {
  PlanTable t = table();
  t.batched[1].entries.clear();
  const ServingSchedule schedule = planned_schedule(t);
  CHECK(schedule.cells.size() == 4);
  CHECK(schedule.cells[1].requests_high == 8);
}
