// A planner table as the tuples of a batch's steps.
#include "engine/analyse/serve/planned_batch.h"

#include <catch2/catch.hpp>

#include "model/words/error.h"
#include "tests/support/tiny_batch_table.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

std::string chosen(const TuplePlan& plan, std::int64_t context_len, std::int64_t running) {
  return plan.tuples()[plan.chooser()->next(context_len, running)].text();
}

const char* const kTree = "nsa/d3k2n6/dfs/c2e/F*";
const char* const kChain = "nsa/d4k1n5/bfs/c1/F*";

}  // namespace

TEST_CASE("a step's tuple is the best of the cell of its context and of the requests that run") {
  const auto plan = planned_batch(test::tiny_batch_table(), PrecisionClass::kStrict, {});
  CHECK(plan->tuples().size() == 3);
  CHECK(plan->remarks().empty());
  CHECK(chosen(*plan, 10, 1) == kTree);
  CHECK(chosen(*plan, 1000, 1) == kTree);
  CHECK(chosen(*plan, 10, 2) == kChain);
  CHECK(chosen(*plan, 10, 4) == kChain);
  CHECK(chosen(*plan, 100, 4) == "nsa/ar");
  CHECK(chosen(*plan, 10, 5) == "nsa/ar");
  // Longer contexts and more requests than were planned: the last cells stand for them.
  CHECK(chosen(*plan, 5000, 1) == kTree);
  CHECK(chosen(*plan, 10, 200) == "nsa/ar");
}

TEST_CASE("a request's tuple follows the requests that run, and what its drafts yield") {
  const auto plan = planned_batch(test::tiny_batch_table(), PrecisionClass::kStrict, {});
  const std::unique_ptr<TupleChooser> request = plan->chooser();
  const auto step = [&](std::int64_t running, std::int64_t yielded) {
    const std::string text = plan->tuples()[request->next(10, running)].text();
    request->observe(yielded);
    return text;
  };
  CHECK(step(1, 2) == kTree);
  CHECK(step(3, 2) == kChain);
  CHECK(step(8, 1) == "nsa/ar");
  for (int i = 1; i < 5; ++i) {
    CHECK(step(1, 1) == "nsa/ar");  // a crowd that has gone is believed after five steps
  }
  CHECK(step(1, 1) == kTree);
  std::string last;
  for (int i = 0; i < 60; ++i) {
    last = step(1, 1);  // nothing is accepted
  }
  CHECK(last == "nsa/ar");
}

TEST_CASE("tuples that cannot run here are left out and said, and none is no plan") {
  const TupleRefusal no_trees = [](const Strategy& s) {
    return s.draft.width > 1 ? std::string("trees are refused") : std::string();
  };
  const auto plan = planned_batch(test::tiny_batch_table(), PrecisionClass::kStrict, no_trees);
  CHECK(chosen(*plan, 10, 1) == kChain);
  REQUIRE(plan->remarks().size() == 1);
  CHECK(plan->remarks()[0].find("is left out: trees are refused") != std::string::npos);
  CHECK_THROWS_AS(planned_batch(test::tiny_batch_table(), PrecisionClass::kStrict,
                                [](const Strategy&) { return std::string("no"); }),
                  Error);
  // A table of one request at a time says nothing of several.
  const auto alone = planned_batch(test::tiny_table(), PrecisionClass::kStrict, {});
  CHECK(alone->remarks().size() == 1);
  CHECK(chosen(*alone, 10, 1) == chosen(*alone, 10, 30));
}

TEST_CASE("of a plan for tokens a joule a step's tuple is the one that yields most of them") {
  PlanTable table = test::tiny_table();
  for (PlanEntry& e : table.entries) {
    e.evaluation.cost->dram_bytes = e.evaluation.strategy.text() == kChain ? 1.0 : 5.0;
  }
  for (PlanBaseline& b : table.baselines) {
    b.evaluation.cost->dram_bytes = 1.0;
  }
  // As much time each: the first of the table.
  CHECK(chosen(*planned_batch(table, PrecisionClass::kStrict, {}), 10, 1) == kTree);
  table.aims.objective = Objective::kEnergy;
  table.energy = {.points = 9, .joules_per_byte = 1.0};
  CHECK(chosen(*planned_batch(table, PrecisionClass::kStrict, {}), 10, 1) == kChain);
}
