#include "engine/replay/cell.h"

#include <algorithm>

namespace versieve::engine {
namespace {

Choice choice_of(const Evaluation& e) {
  return {e.strategy, e.cost->time_us, e.expected_accepted};
}

}  // namespace

std::vector<Choice> Cell::needed() const {
  std::vector<Choice> out = ranked;
  out.push_back(*base);
  return out;
}

Cell cell_of(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
             const GuardConstants& guard) {
  std::vector<const PlanEntry*> entries;
  for (const PlanEntry& e : table.entries) {
    if (e.bucket == bucket && e.precision == precision) {
      entries.push_back(&e);
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const PlanEntry* a, const PlanEntry* b) { return a->rank < b->rank; });
  Cell cell;
  for (const PlanEntry* e : entries) {
    if (static_cast<std::int64_t>(cell.ranked.size()) <= guard.max_transitions) {
      cell.ranked.push_back(choice_of(e->evaluation));
    }
  }
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && b.role == "fixed") {
      cell.base = choice_of(b.evaluation);
    } else if (b.bucket == bucket && b.role == "autoregressive") {
      cell.autoregressive = choice_of(b.evaluation);
    }
  }
  return cell;
}

std::string unplayable_because(const PlanTable& table, std::int64_t bucket,
                               PrecisionClass precision, const Cell& cell) {
  if (cell.ranked.empty()) {
    for (const UnavailableCell& u : table.unavailable) {
      if (u.bucket == bucket && u.precision == precision) {
        return u.reason;
      }
    }
    return "the table ranks no tuple";
  }
  if (!std::all_of(cell.ranked.begin(), cell.ranked.end(),
                   [](const Choice& choice) { return can_be_recorded(choice.strategy); })) {
    return "its tuples are another target's or another sampler's; walks are recorded of greedy "
           "steps of an NSA target";
  }
  return cell.base && cell.autoregressive ? "" : "the table lacks its baselines";
}

std::vector<Strategy> unrecorded(const Walks& walks, const std::vector<ReplayRequest>& requests,
                                 const std::vector<Choice>& choices) {
  std::vector<Strategy> out;
  for (const Choice& choice : choices) {
    if (choice.strategy.draft.speculates() &&
        std::none_of(requests.begin(), requests.end(), [&](const ReplayRequest& request) {
          return !walks.of(request, choice.strategy).empty();
        })) {
      out.push_back(choice.strategy);
    }
  }
  return out;
}

}  // namespace versieve::engine
