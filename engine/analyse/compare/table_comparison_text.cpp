// What the comparison of tables says: sentences, a list of cells, JSON.
#include "engine/analyse/compare/table_comparison.h"
#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

std::string winner_text(const PlanEntry* entry) {
  return entry == nullptr ? "nothing" : entry->evaluation.strategy.text();
}

std::string rate_text(const ComparedCell& cell) {
  if (cell.before == nullptr || cell.after == nullptr) {
    return "";
  }
  return formatted("%.1f, then %.1f tok/s (%+.1f %%)", cell.before->evaluation.throughput,
                   cell.after->evaluation.throughput, 100.0 * (cell.ratio() - 1.0));
}

std::string inputs_text(const ComparedCell& cell) {
  std::string text;
  for (const PlanInput input : cell.because) {
    text += std::string(text.empty() ? "" : ", ") + name_of(input);
  }
  return text;
}

nlohmann::json entry_json(const PlanEntry* entry) {
  if (entry == nullptr) {
    return nullptr;
  }
  const Interval& interval = entry->evaluation.throughput_interval;
  return {{"strategy", entry->evaluation.strategy.text()},
          {"throughput", entry->evaluation.throughput},
          {"interval", {interval.low, interval.high}},
          {"expected_accepted", entry->evaluation.expected_accepted}};
}

}  // namespace

std::string counts_text(const TableComparison& comparison) {
  std::string text = std::to_string(comparison.cells.size()) + " cells";
  for (const CellChange change : {CellChange::kWinner, CellChange::kTiedWinner, CellChange::kMoved,
                                  CellChange::kOnlyOne, CellChange::kSame}) {
    if (const std::size_t count = comparison.count_of(change); count > 0) {
      text += (text.find(':') == std::string::npos ? ": " : ", ") + std::to_string(count) + " " +
              name_of(change);
    }
  }
  return text;
}

std::string table_comparison_text(const std::string& before, const std::string& after,
                                  const TableComparison& comparison) {
  std::string out = before + ", then " + after + ": " + counts_text(comparison) + ".\n" +
                    kTableRule + "\nWhat moved:" + (comparison.moved.empty() ? " nothing\n" : "\n");
  for (const MovedInput& moved : comparison.moved) {
    out += formatted("  %-11s", name_of(moved.input)) + moved.sentence + "\n";
  }
  for (const ComparedCell& cell : comparison.cells) {
    if (cell.change == CellChange::kSame) {
      continue;
    }
    out += "\n" + name_of(cell.bucket) + " " + name_of(cell.precision) + ": " +
           name_of(cell.change) + "\n  " + winner_text(cell.before);
    if (cell.change != CellChange::kMoved) {
      out += "\n  then " + winner_text(cell.after);
    }
    const std::string rate = rate_text(cell);
    out += (rate.empty() ? "" : "\n  " + rate) + "\n  why (" + inputs_text(cell) +
           "): " + cell.why + "\n";
  }
  return out;
}

nlohmann::json table_comparison_json(const std::string& before, const std::string& after,
                                     const TableComparison& comparison) {
  nlohmann::json moved = nlohmann::json::array();
  for (const MovedInput& input : comparison.moved) {
    moved.push_back({{"input", name_of(input.input)}, {"sentence", input.sentence}});
  }
  nlohmann::json cells = nlohmann::json::array();
  for (const ComparedCell& cell : comparison.cells) {
    nlohmann::json because = nlohmann::json::array();
    for (const PlanInput input : cell.because) {
      because.push_back(name_of(input));
    }
    cells.push_back({{"bucket", {cell.bucket.low, cell.bucket.high}},
                     {"class", name_of(cell.precision)},
                     {"change", name_of(cell.change)},
                     {"first", entry_json(cell.before)},
                     {"second", entry_json(cell.after)},
                     {"because", because},
                     {"why", cell.why}});
  }
  return {{"first", before},
          {"second", after},
          {"rule", kTableRule},
          {"moved", moved},
          {"cells", cells}};
}

}  // namespace versieve::engine
