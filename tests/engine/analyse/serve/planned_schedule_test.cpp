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
#include "tests/support/tiny_table.h"

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

namespace {

// Chains of one bucket and one request: the deeper one yields more a second, the shorter one more
// a joule and in less time a token; the chain among the baselines the most of all.
PlanTable chains_by_hand() {
  PlanTable t = test::tiny_table();
  t.buckets = {{0, 64}};
  t.entries.clear();
  std::erase_if(t.baselines,
                [](const PlanBaseline& b) { return b.bucket != 0 || b.role != "autoregressive"; });
  const auto chain = [](const char* strategy, double us, double tokens, double bytes) {
    Evaluation e = test::told(strategy, us, tokens);
    e.cost->dram_bytes = bytes;
    return e;
  };
  t.baselines[0].evaluation.cost->dram_bytes = 1.0;
  t.entries = {{.rank = 1, .evaluation = chain("nsa/d5k1n6/bfs/c1/F*", 100.0, 3.0, 9.0)},
               {.rank = 2, .evaluation = chain("nsa/d3k1n4/bfs/c1/F*", 100.0, 2.5, 2.0)}};
  t.baselines.push_back({.bucket = 0,
                         .role = "chain",
                         .evaluation = chain("nsa/d7k1n8/bfs/c1/F*", 100.0, 3.5, 20.0)});
  return t;
}

std::int64_t first_depth(const PlanTable& t) {
  return planned_schedule(t).cells.at(0).best().draft.depth;
}

}  // namespace

TEST_CASE("a planned schedule puts first what the plan's objective does") {
  PlanTable t = chains_by_hand();
  CHECK(first_depth(t) == 7);
  t.aims.objective = Objective::kEnergy;
  t.energy = {.points = 9, .joules_per_byte = 1.0};
  CHECK(first_depth(t) == 3);
  CHECK(planned_schedule(t).cells.at(0).best().break_even == Approx(2.0));  // of time, as it was
}

TEST_CASE("a baseline that does not keep the plan's bounds is in no schedule") {
  PlanTable t = chains_by_hand();
  t.aims.itl_ms = 1.0;  // ten times what any takes
  CHECK(first_depth(t) == 7);
  const std::vector<std::string> notes = planned_schedule(t).notes;
  CHECK(std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
    return note.find("such requests see within 1 ms a token are in it") != std::string::npos;
  }));
  t.baselines.back().evaluation.throughput_interval.low = 900.0;
  CHECK(first_depth(t) == 5);
}
