#include "engine/analyse/compare/table_comparison.h"

#include <algorithm>
#include <cmath>

#include "engine/analyse/compare/cell_causes.h"

namespace versieve::engine {
namespace {

constexpr double kMoved = 5e-4;  // of a rate: what three shown digits can tell

const PlanEntry* winner(const PlanTable& table, const ContextBucket& bucket,
                        PrecisionClass precision) {
  const std::int64_t index = bucket_index(table, bucket);
  if (index < 0) {
    return nullptr;
  }
  const std::vector<const PlanEntry*> entries = entries_of(table, index, precision);
  return entries.empty() ? nullptr : entries.front();
}

CellChange change_of(const PlanEntry* before, const PlanEntry* after) {
  if (before == nullptr && after == nullptr) {
    return CellChange::kSame;
  }
  if (before == nullptr || after == nullptr) {
    return CellChange::kOnlyOne;
  }
  if (!(before->evaluation.strategy == after->evaluation.strategy)) {
    return is_within_noise(*before, *after) ? CellChange::kTiedWinner : CellChange::kWinner;
  }
  const double ratio = after->evaluation.throughput / before->evaluation.throughput;
  return std::fabs(std::log(ratio)) > kMoved ? CellChange::kMoved : CellChange::kSame;
}

template <typename T>
std::vector<T> joined(std::vector<T> all, const std::vector<T>& others) {
  for (const T& other : others) {
    if (std::find(all.begin(), all.end(), other) == all.end()) {
      all.push_back(other);
    }
  }
  return all;
}

}  // namespace

const char* name_of(PlanInput input) {
  switch (input) {
    case PlanInput::kMachine:
      return "machine";
    case PlanInput::kModel:
      return "model";
    case PlanInput::kPoints:
      return "points";
    case PlanInput::kFit:
      return "fit";
    case PlanInput::kAcceptance:
      return "acceptance";
    case PlanInput::kPrice:
      return "price";
    case PlanInput::kOptions:
      return "options";
  }
  return "";
}

const char* name_of(CellChange change) {
  switch (change) {
    case CellChange::kWinner:
      return "another winner";
    case CellChange::kTiedWinner:
      return "another winner within noise";
    case CellChange::kMoved:
      return "moved";
    case CellChange::kOnlyOne:
      return "in one alone";
    case CellChange::kSame:
      return "same";
  }
  return "";
}

double ComparedCell::ratio() const {
  return before != nullptr && after != nullptr
             ? after->evaluation.throughput / before->evaluation.throughput
             : 1.0;
}

std::size_t TableComparison::count_of(CellChange change) const {
  return static_cast<std::size_t>(
      std::count_if(cells.begin(), cells.end(),
                    [change](const ComparedCell& cell) { return cell.change == change; }));
}

TableComparison compare_tables(const PlanTable& before, const PlanTable& after) {
  TableComparison result;
  result.moved = moved_inputs(before, after);
  for (const ContextBucket& bucket : joined(before.buckets, after.buckets)) {
    for (const PrecisionClass precision : joined(before.classes, after.classes)) {
      ComparedCell cell{.bucket = bucket,
                        .precision = precision,
                        .change = CellChange::kSame,
                        .before = winner(before, bucket, precision),
                        .after = winner(after, bucket, precision),
                        .because = {},
                        .why = {}};
      cell.change = change_of(cell.before, cell.after);
      if (cell.change != CellChange::kSame) {
        explain(cell, before, after, result.moved);
      }
      result.cells.push_back(std::move(cell));
    }
  }
  std::stable_sort(
      result.cells.begin(), result.cells.end(),
      [](const ComparedCell& a, const ComparedCell& b) { return a.change < b.change; });
  return result;
}

}  // namespace versieve::engine
