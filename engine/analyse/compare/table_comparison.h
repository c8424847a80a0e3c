// A planner table against an earlier one: which cells changed, and which input moved: points, fit,
// acceptance, price, machine, or what was asked for. Used by `versieve compare` and by the app.
//
// What moved is told by the strategies that both tables price in one bucket: their tokens a step
// are the acceptance's, their step times the machine's, the points' or the fit's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/plan/planner.h"

namespace versieve::engine {

enum class PlanInput { kMachine, kModel, kPoints, kFit, kAcceptance, kPrice, kOptions };
const char* name_of(PlanInput input);  // "machine", "model", "points", "fit", ...

// "acceptance of demo-nsa, then of smollm2-nsa"
struct MovedInput {
  PlanInput input = PlanInput::kPoints;
  std::string sentence;
};

// By how much it matters to who uses the table.
enum class CellChange { kWinner, kTiedWinner, kMoved, kOnlyOne, kSame };
// "another winner", "another winner within noise", "moved", "in one alone", "same"
const char* name_of(CellChange change);

struct ComparedCell {
  ContextBucket bucket;
  PrecisionClass precision = PrecisionClass::kStrict;
  CellChange change = CellChange::kSame;
  const PlanEntry* before = nullptr;  // the winners, of the tables that were given; null: none
  const PlanEntry* after = nullptr;
  std::vector<PlanInput> because;  // in the order of the enumeration
  std::string why;                 // a sentence without its full stop; empty if nothing changed

  // Of the winners; 1 where one is missing.
  double ratio() const;
};

struct TableComparison {
  std::vector<MovedInput> moved;
  std::vector<ComparedCell> cells;  // those that changed most first, each kind in the tables' order
  std::size_t count_of(CellChange change) const;
};

// Both tables outlive the result, which points into them: one made for the call is no table to give.
TableComparison compare_tables(const PlanTable& before, const PlanTable& after);
TableComparison compare_tables(PlanTable&& before, const PlanTable& after) = delete;
TableComparison compare_tables(const PlanTable& before, PlanTable&& after) = delete;
TableComparison compare_tables(PlanTable&& before, PlanTable&& after) = delete;

// "28 cells: 3 have another winner, ..."
std::string counts_text(const TableComparison& comparison);
inline constexpr const char* kTableRule =
    "Within noise: the 90 % intervals of the winners' tokens a second on the same texts overlap.";
std::string table_comparison_text(const std::string& before, const std::string& after,
                                  const TableComparison& comparison);
nlohmann::json table_comparison_json(const std::string& before, const std::string& after,
                                     const TableComparison& comparison);

}  // namespace versieve::engine
