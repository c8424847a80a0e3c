// Which tuples of a cell are one choice, and what a cell lists of them.
#include "model/plan/near_duplicates.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "model/plan/planner.h"
#include "tests/support/planned.h"

using namespace versieve;

namespace {

bool alike(const char* a, const char* b, double apart = 0.01, double half_width = 0.1) {
  const Strategy s = Strategy::parse(a);
  const Strategy t = Strategy::parse(b);
  const RankedTuple x{&s, 1.0, half_width};
  const RankedTuple y{&t, 1.0 - apart, 0.001};
  CHECK(are_near_duplicates(x, y) == are_near_duplicates(y, x));
  return are_near_duplicates(x, y);
}

RankedTuple ranked(const PlanEntry& e) {
  const Interval& interval = e.evaluation.throughput_interval;
  return {&e.evaluation.strategy, std::log(e.evaluation.throughput),
          0.5 * (std::log(interval.high) - std::log(interval.low))};
}

using Cells = std::map<std::pair<std::int64_t, PrecisionClass>, std::vector<const PlanEntry*>>;

Cells cells_of(const PlanTable& table) {
  Cells cells;
  for (const PlanEntry& e : table.entries) {
    cells[{e.bucket, e.precision}].push_back(&e);
  }
  return cells;
}

}  // namespace

TEST_CASE("a step of the grid, the order and the size of a group make no other choice") {
  const char* const tree = "nsa/d4k8n48/bfs/c8e/F*";
  CHECK(alike(tree, tree));
  CHECK(alike(tree, "nsa/d4k8n48/dfs/c4e/F*"));
  CHECK(alike(tree, "nsa/d5k10n64/bfs/c8e/F*"));
  CHECK(alike(tree, "nsa/d3k6n32/bfs/c1/F*"));
  CHECK(!alike(tree, "nsa/d6k8n48/bfs/c8e/F*"));
  CHECK(!alike(tree, "nsa/d4k4n48/bfs/c8e/F*"));
  CHECK(!alike(tree, "nsa/d4k8n24/bfs/c8e/F*"));
  CHECK(alike("nsa/d8k8n96/bfs/c1/F*", "nsa/d10k8n128/bfs/c1/F*"));  // neighbours of the grid
}

TEST_CASE("another kind of group, schedule, attention or sampling is another choice") {
  const char* const tree = "nsa/d4k8n48/bfs/c8e/F*";
  CHECK(!alike(tree, "nsa/d4k8n48/bfs/c8a/F*"));
  CHECK(!alike(tree, "nsa/d4k8n48/bfs/c8e/(FR)*"));
  CHECK(!alike("nsa/d4k8n48/bfs/c8e/(FRR)*", "nsa/d4k8n48/bfs/c8e/(FRRR)*"));
  CHECK(!alike("nsa/d4k1n5/bfs/c1/F*", "nsa/d4k1n5/bfs/c1/F*/sampling=sigmoid"));
  CHECK(!alike("specattn:p0.9/d4k1n5/bfs/c1/F*", "specattn:p0.95/d4k1n5/bfs/c1/F*"));
  CHECK(!alike("resa:b16p0.1f32/ar", "resa:b16p0.1f128/ar"));
  CHECK(!alike("resa:b16p0.1f32/ar", "resa:b16p0.1f32n_min4/ar"));
  CHECK(!alike("resa:b16p0.1f32/ar", "resa:b16p0.1f32n_local4/ar"));
  CHECK(!alike("dense/d4k1n5/bfs/c1/F*", "dense/d4k1n5/bfs/c1/F*/draft=resa:b16p0.1"));
  CHECK(!alike("nsa/ar", "nsa/d1k1n2/bfs/c1/F*"));
}

TEST_CASE("what lies beyond the noise of a prediction is another choice, however alike") {
  CHECK(alike("nsa/d4k8n48/bfs/c8e/F*", "nsa/d4k8n64/bfs/c8e/F*", 0.1));
  CHECK(!alike("nsa/d4k8n48/bfs/c8e/F*", "nsa/d4k8n64/bfs/c8e/F*", 0.11));
}

TEST_CASE("the best of a family stays, and the next family follows") {
  const std::vector<Strategy> tuples = {
      Strategy::parse("nsa/d4k8n48/bfs/c8e/F*"), Strategy::parse("nsa/d5k8n48/bfs/c8e/F*"),
      Strategy::parse("nsa/d6k8n48/bfs/c8e/F*"), Strategy::parse("nsa/d7k8n48/bfs/c8e/F*"),
      Strategy::parse("nsa/d4k8n64/bfs/c8e/F*")};
  std::vector<RankedTuple> best_first;
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    best_first.push_back({&tuples[i], 1.0 - 0.01 * static_cast<double>(i), 0.5});
  }
  using Places = std::vector<std::size_t>;
  CHECK(distinct_places(best_first, 12) == Places{0, 2});
  CHECK(distinct_places(best_first, 1) == Places{0});
  CHECK(distinct_places({}, 12).empty());
}

TEST_CASE("no two ranks of a cell are near duplicates, and what is left out has a better like it") {
  PlanOptions options;
  options.buckets = parse_buckets("0-4096,4096-8192");
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  const HardwareSpec& machine = hardware_by_key("h200-sxm");
  const LlmShape target = named_llm_shape("nsa-1b");
  const PlanTable distinct = plan(fit, machine, target, options);
  options.distinct = false;
  options.ranks = 100000;
  const PlanTable whole = plan(fit, machine, target, options);
  const Cells all = cells_of(whole);
  for (const auto& [cell, entries] : cells_of(distinct)) {
    REQUIRE(entries.size() == 12);
    const std::vector<const PlanEntry*>& every = all.at(cell);
    CHECK(entries[0]->evaluation.strategy == every[0]->evaluation.strategy);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        CHECK(!are_near_duplicates(ranked(*entries[j]), ranked(*entries[i])));
      }
    }
    for (const PlanEntry* e : every) {
      if (e->evaluation.throughput <= entries.back()->evaluation.throughput) {
        break;
      }
      CHECK(std::any_of(entries.begin(), entries.end(), [&](const PlanEntry* kept) {
        return kept->evaluation.strategy == e->evaluation.strategy ||
               (kept->evaluation.throughput >= e->evaluation.throughput &&
                are_near_duplicates(ranked(*kept), ranked(*e)));
      }));
    }
  }
}
