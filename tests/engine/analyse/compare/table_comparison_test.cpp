// Which cells of a table changed, and which input moved: the machine's or the points' step times,
// the acceptance's tokens, the price's limit.
#include "engine/analyse/compare/table_comparison.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/errors.h"
#include "tests/support/tiny_table.h"

using namespace versieve;
using namespace versieve::engine;
using versieve::test::contains;
using versieve::test::tiny_table;
using versieve::test::told;

namespace {

constexpr const char* kFirst = "nsa/d3k2n6/dfs/c2e/F*";
constexpr const char* kSecond = "nsa/d2k2n4/bfs/c1/F*";

// The first two of Strict in the first bucket change places; `step_us` of the one that leads now.
PlanTable swapped(double step_us, double accepted = 2.0) {
  PlanTable table = tiny_table();
  table.entries[0].evaluation = told(kSecond, step_us, accepted);
  table.entries[1].evaluation = told(kFirst);
  return table;
}

const ComparedCell& strict_cell(const TableComparison& c) {
  return *std::find_if(c.cells.begin(), c.cells.end(), [](const ComparedCell& cell) {
    return cell.bucket == ContextBucket{0, 64} && cell.precision == PrecisionClass::kStrict;
  });
}

}  // namespace

TEST_CASE("a table against itself: nothing moved, every cell the same") {
  const PlanTable table = tiny_table();
  const TableComparison c = compare_tables(table, table);
  CHECK(c.moved.empty());
  CHECK(c.cells.size() == 12);
  CHECK(c.count_of(CellChange::kSame) == 12);
  CHECK(counts_text(c) == "12 cells: 12 same");
  CHECK(contains(table_comparison_text("a", "b", c), "What moved: nothing"));
}

TEST_CASE("more points make another step time, and the cell says so first") {
  const PlanTable before = tiny_table();
  PlanTable after = swapped(50.0);
  after.fit_points = 7;
  after.runs = {"new-run"};
  const TableComparison c = compare_tables(before, after);
  REQUIRE(c.moved.size() == 1);
  CHECK(c.moved[0].input == PlanInput::kPoints);
  CHECK(contains(c.moved[0].sentence, "runs that came 1"));
  const ComparedCell& cell = c.cells.front();
  CHECK(&cell == &strict_cell(c));
  CHECK(cell.change == CellChange::kWinner);
  CHECK(cell.because == std::vector<PlanInput>{PlanInput::kPoints});
  CHECK(cell.why == "of the new winner its step takes 50.0 % less (points)");
  CHECK(cell.ratio() == Approx(2.0));
}

TEST_CASE("another step time of the same points on the same machine is the fit's") {
  const PlanTable before = tiny_table(), after = swapped(50.0);
  const TableComparison c = compare_tables(before, after);
  REQUIRE(c.moved.size() == 1);
  CHECK(c.moved[0].input == PlanInput::kFit);
  CHECK(strict_cell(c).because == std::vector<PlanInput>{PlanInput::kFit});
}

TEST_CASE("other tokens a step are the acceptance's; a lead within noise is said to be one") {
  PlanTable before = tiny_table(), after = swapped(100.0, 2.1);
  before.acceptance_pair = "demo-nsa";
  after.acceptance_pair = "smollm2-nsa";
  const TableComparison c = compare_tables(before, after);
  CHECK(c.moved[0].input == PlanInput::kAcceptance);
  const ComparedCell& cell = strict_cell(c);
  CHECK(cell.change == CellChange::kTiedWinner);
  CHECK(cell.because == std::vector<PlanInput>{PlanInput::kAcceptance});
  CHECK(contains(cell.why, "a step yields 5.0 % more tokens (acceptance)"));
  CHECK(contains(cell.why, "their intervals overlap"));
}

TEST_CASE("a limit of losses that leaves the winner out is the price's doing") {
  PlanTable before = tiny_table(), after = tiny_table();
  after.max_loss = 0.01;
  after.entries.erase(std::find_if(after.entries.begin(), after.entries.end(), [](const auto& e) {
    return e.precision == PrecisionClass::kApproxOnly;
  }));
  const TableComparison c = compare_tables(before, after);
  const ComparedCell& gone = c.cells.front();
  CHECK(gone.change == CellChange::kOnlyOne);
  CHECK(gone.precision == PrecisionClass::kApproxOnly);
  CHECK(gone.because == std::vector<PlanInput>{PlanInput::kPrice});

  PlanTable other = tiny_table();
  other.max_loss = 0.01;
  other.entries[3].evaluation = told("nsa/d4k2n8/dfs/c2e/(FR)*", 90.0);
  const TableComparison limited = compare_tables(before, other);
  const ComparedCell& cell = limited.cells.front();
  CHECK(cell.precision == PrecisionClass::kReuseOnly);
  CHECK(cell.because == std::vector<PlanInput>{PlanInput::kPrice});
  CHECK(contains(cell.why, "now the limit of losses leaves nsa/d3k2n6/dfs/c2e/(FR)* out"));
}

TEST_CASE("a winner that the other table does not rank is laid to what moved") {
  const PlanTable before = tiny_table();
  PlanTable after = tiny_table();
  after.hardware = "h200-sxm";
  after.entries[0].evaluation = told("nsa/d5k2n8/dfs/c2e/F*", 50.0);
  const TableComparison c = compare_tables(before, after);
  const ComparedCell& cell = strict_cell(c);
  CHECK(cell.because == std::vector<PlanInput>{PlanInput::kMachine});
  CHECK(contains(cell.why, "is not among the 3 ranks, which end at 20000.0 tok/s"));
}

TEST_CASE("context ranges that only one table has are cells of that one alone") {
  const PlanTable before = tiny_table();
  PlanTable after = tiny_table();
  after.buckets[2] = {256, 2048};
  const TableComparison c = compare_tables(before, after);
  CHECK(c.cells.size() == 16);
  CHECK(c.count_of(CellChange::kOnlyOne) == 8);
  CHECK(c.moved[0].input == PlanInput::kOptions);
  const nlohmann::json json = table_comparison_json("a", "b", c);
  CHECK(json.at("cells").size() == 16);
  CHECK(json.at("moved")[0].at("input") == "options");
}
