// What a guarded request takes of a table.
#include "model/plan/guarded_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/words/error.h"

using namespace versieve;

namespace {

Evaluation evaluation(const std::string& strategy, double accepted, double step_us) {
  Evaluation out;
  out.strategy = Strategy::parse(strategy);
  out.cost = StepCost{.time_us = step_us};
  out.expected_accepted = accepted;
  return out;
}

PlanTable table_of_four() {
  PlanTable table;
  table.buckets = {{0, 4096}, {4096, 8192}};
  for (const std::int64_t rank : {4, 2, 1, 3}) {
    table.entries.push_back(
        {.rank = rank,
         .evaluation = evaluation("nsa/d" + std::to_string(rank) + "k4n5/bfs/c1/F*",
                                  10.0 - static_cast<double>(rank), 100.0)});
  }
  table.baselines = {{0, "autoregressive", evaluation("nsa/ar", 1.0, 30.0)}};
  return table;
}

}  // namespace

TEST_CASE(
    "a guarded bucket has the tuples that the guard can reach, by rank, plain decoding last") {
  const PlanTable table = table_of_four();
  const GuardedPlan ranked = guarded_plan(table, PrecisionClass::kStrict, GuardRule::kNextRanked);
  REQUIRE(ranked.buckets.size() == 1);            // the second has no entries
  REQUIRE(ranked.buckets[0].ranked.size() == 4);  // of which a request reaches three
  CHECK(guarded_request(ranked, 100, 10).ranked.size() == 3);
  CHECK(ranked.buckets[0].ranked[0].text() == "nsa/d1k4n5/bfs/c1/F*");
  CHECK(ranked.buckets[0].ranked[2].text() == "nsa/d3k4n5/bfs/c1/F*");
  CHECK(ranked.buckets[0].expected[1].expected_accepted == 8.0);
  const GuardedBucket promising =
      guarded_bucket(table, 0, PrecisionClass::kStrict, GuardRule::kMostPromising);
  REQUIRE(promising.ranked.size() == 4);
  CHECK(promising.ranked[3].text() == "nsa/ar");
  CHECK(promising.expected[3].step_us == 30.0);
}

TEST_CASE("a tuple that the host leads joins no cell whose first is recorded") {
  PlanTable table;
  table.buckets = {{0, 4096}, {4096, 8192}};
  const auto add = [&](std::int64_t bucket, std::int64_t rank, const std::string& strategy) {
    table.entries.push_back(
        {.bucket = bucket, .rank = rank, .evaluation = evaluation(strategy, 2.0, 100.0)});
  };
  const std::string adapted = "nsa/d7k1n8/bfs/c1/F*/gamma=adapt";
  add(0, 1, "nsa/d4k4n16/bfs/c1/F*");
  add(0, 2, adapted);
  add(0, 3, "nsa/d3k4n5/bfs/c1/F*");
  add(1, 1, adapted);
  add(1, 2, "nsa/d3k4n5/bfs/c1/F*");
  const GuardedPlan plan = guarded_plan(table, PrecisionClass::kStrict, GuardRule::kNextRanked);
  REQUIRE(plan.buckets.size() == 2);
  REQUIRE(plan.buckets[0].ranked.size() == 2);
  CHECK(plan.buckets[0].ranked[1].text() == "nsa/d3k4n5/bfs/c1/F*");
  REQUIRE(plan.buckets[1].ranked.size() == 2);
  CHECK(plan.buckets[1].ranked[0].text() == adapted);
}

TEST_CASE("a cell says what a request needs to be run by it") {
  PlanTable table;
  table.buckets = {{0, 4096}};
  const auto add = [&](PrecisionClass precision, std::int64_t rank, const std::string& strategy) {
    table.entries.push_back(
        {.precision = precision, .rank = rank, .evaluation = evaluation(strategy, 2.0, 100.0)});
  };
  add(PrecisionClass::kStrict, 1, "nsa/d4k4n16/bfs/c1/F*");
  add(PrecisionClass::kSparse, 1, "specattn:p0.95/d4k1n5/bfs/c1/F*");
  add(PrecisionClass::kSparse, 2, "specattn:p0.9/d4k1n5/bfs/c1/F*");
  add(PrecisionClass::kSparseRectified, 1, "nsa/d4k4n16/bfs/c1/F*");
  add(PrecisionClass::kSparseRectified, 2, "resa:b16p0.1f32/ar");
  add(PrecisionClass::kApproxSampling, 1, "nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid");
  CHECK(run_condition(table, 0, PrecisionClass::kStrict).empty());
  CHECK(run_condition(table, 0, PrecisionClass::kReuseOnly).empty());  // no entries
  CHECK(run_condition(table, 0, PrecisionClass::kSparse) ==
        "generate --table runs this cell on a dense pair with a draft model of its own and its "
        "layer_map.json");
  CHECK(run_condition(table, 0, PrecisionClass::kSparseRectified) ==
        "generate --table runs this cell on a dense pair");
  CHECK(run_condition(table, 0, PrecisionClass::kApproxSampling) ==
        "generate --table runs this cell above temperature 0");
}

TEST_CASE("a class is planned for the pair, or for the dense model that its prices name") {
  PlanTable table;
  table.buckets = {{0, 4096}};
  PlanEntry nsa{.evaluation = evaluation("nsa/d4k4n16/bfs/c1/F*", 4.0, 100.0)};
  PlanEntry sparse{.precision = PrecisionClass::kSparse,
                   .evaluation = evaluation("specattn:p0.9/d4k1n5/bfs/c1/F*", 3.0, 100.0)};
  table.entries = {nsa, sparse};
  CHECK(planned_pair(table, PrecisionClass::kStrict) == PairId{});  // an older table
  table.sources = PlanSources{.pair = PairId{"smol-nsa", "3fa9"}};
  CHECK(planned_pair(table, PrecisionClass::kStrict) == PairId{"smol-nsa", "3fa9"});
  CHECK(planned_pair(table, PrecisionClass::kSparse) == PairId{});  // nobody says which
  table.entries[1].price = {.from = PriceFrom::kBorrowed, .pair = {"other", "11"}};
  CHECK(planned_pair(table, PrecisionClass::kSparse) == PairId{});  // another pair's price
  table.entries[1].price = {.from = PriceFrom::kOwn, .pair = {"smol-dense", "b537"}};
  CHECK(planned_pair(table, PrecisionClass::kSparse) == PairId{"smol-dense", "b537"});
}

TEST_CASE("a guarded cell of a dense target holds none of the NSA target's baselines") {
  PlanTable table;
  table.buckets = {{0, 4096}};
  for (const char* strategy : {"nsa/d8k8n128/bfs/c1/F*", "specattn:p0.9/d8k1n9/bfs/c1/F*", "nsa/ar",
                               "specattn:p0.95/d8k1n9/bfs/c1/F*"}) {
    table.entries.push_back({.precision = PrecisionClass::kSparse,
                             .rank = static_cast<std::int64_t>(table.entries.size()) + 1,
                             .evaluation = evaluation(strategy, 4.0, 100.0)});
  }
  table.baselines = {{0, "autoregressive", evaluation("nsa/ar", 1.0, 30.0)},
                     {0, "fixed", evaluation("nsa/d8k8n128/bfs/c1/F*", 5.0, 90.0)},
                     {0, "dense target", evaluation("dense/ar", 1.0, 35.0)}};
  const GuardedBucket cell =
      guarded_bucket(table, 0, PrecisionClass::kSparse, GuardRule::kMostPromising);
  REQUIRE(cell.ranked.size() == 3);
  CHECK(cell.ranked[0].text() == "specattn:p0.9/d8k1n9/bfs/c1/F*");
  CHECK(cell.ranked[1].text() == "specattn:p0.95/d8k1n9/bfs/c1/F*");
  CHECK(cell.ranked[2].text() == "dense/ar");  // plain decoding of the same target
  CHECK(cell.expected[2].step_us == 35.0);
  CHECK(guarded_bucket(table, 0, PrecisionClass::kSparse, GuardRule::kNextRanked).ranked.size() ==
        2);
}

TEST_CASE("what cannot run here is left out of a request, as long as the class keeps a tuple") {
  PlanTable table = table_of_four();
  const GuardedPlan plan = guarded_plan(table, PrecisionClass::kStrict, GuardRule::kMostPromising);
  const auto lacks = [](std::vector<std::string> texts) {
    return [texts](const Strategy& s) {
      return std::count(texts.begin(), texts.end(), s.text()) > 0 ? std::string("lacks a part")
                                                                  : std::string();
    };
  };
  const GuardedRequest request = guarded_request(plan, 100, 10, lacks({"nsa/d1k4n5/bfs/c1/F*"}));
  REQUIRE(request.ranked.size() == 4);  // the fourth rank is within reach, plain decoding last
  CHECK(request.ranked[0].text() == "nsa/d2k4n5/bfs/c1/F*");
  CHECK(request.ranked[2].text() == "nsa/d4k4n5/bfs/c1/F*");
  CHECK(request.ranked[3].text() == "nsa/ar");
  REQUIRE(request.left_out.size() == 1);
  CHECK(request.left_out[0].reason == "lacks a part");
  // Plain decoding alone is not what was asked for.
  const auto all = lacks({"nsa/d1k4n5/bfs/c1/F*", "nsa/d2k4n5/bfs/c1/F*", "nsa/d3k4n5/bfs/c1/F*",
                          "nsa/d4k4n5/bfs/c1/F*"});
  CHECK_THROWS_WITH(guarded_request(plan, 100, 10, all),
                    "strategy 'nsa/d1k4n5/bfs/c1/F*', the best of class Strict for contexts of "
                    "0-4096 tokens: lacks a part");
}

TEST_CASE("a request takes the buckets that its context grows through") {
  PlanTable table = table_of_four();
  table.buckets.push_back({8192, 12288});
  table.entries.push_back(
      {.bucket = 1, .evaluation = evaluation("nsa/d7k4n9/bfs/c1/F*", 5.0, 90.0)});
  table.entries.push_back(
      {.bucket = 2, .evaluation = evaluation("nsa/d8k4n9/bfs/c1/F*", 6.0, 95.0)});
  const GuardedPlan plan = guarded_plan(table, PrecisionClass::kStrict, GuardRule::kNextRanked);
  const GuardedRequest alone = guarded_request(plan, 4000, 96);  // to 4,096
  CHECK(alone.stages.size() == 1);
  CHECK(alone.ranked.size() == 3);
  const GuardedRequest both = guarded_request(plan, 4000, 97);
  REQUIRE(both.stages.size() == 2);
  CHECK(both.stages[1].after == 4096);
  REQUIRE(both.ranked.size() == 4);
  CHECK(both.ranked[3].text() == "nsa/d7k4n9/bfs/c1/F*");
  CHECK(both.stages[1].ranked[0].step_us == 90.0);
  CHECK(both.place_of(2).bucket == ContextBucket{0, 4096});
  CHECK(both.place_of(2).rank == 2);
  CHECK(both.place_of(3).bucket == ContextBucket{4096, 8192});
  CHECK(both.place_of(3).rank == 0);
  CHECK(guarded_request(plan, 5000, 10000).buckets.size() == 2);
}

TEST_CASE("a class without entries and a context in no bucket are answers of no") {
  PlanTable table = table_of_four();
  table.classes = {PrecisionClass::kStrict, PrecisionClass::kSparse};
  CHECK_THROWS_WITH(guarded_plan(table, PrecisionClass::kReuseOnly, GuardRule::kNextRanked),
                    "the table has no entries of class Reuse-only: it was planned with Strict, "
                    "Sparse");
  table.unavailable = {{0, PrecisionClass::kSparse, "it was not measured"}};
  CHECK_THROWS_WITH(guarded_plan(table, PrecisionClass::kSparse, GuardRule::kNextRanked),
                    "the table has no entries of class Sparse: it was not measured");
  const GuardedPlan plan = guarded_plan(table, PrecisionClass::kStrict, GuardRule::kNextRanked);
  CHECK(bucket_for(plan, 4096).range.high == 4096);
  CHECK_THROWS_AS(bucket_for(plan, 4097), Error);
}
