#include "engine/analyse/replay/cell.h"

#include <algorithm>

#include "model/plan/guarded_plan.h"

namespace versieve::engine {
namespace {

Choice choice_of(const Evaluation& e) {
  return {e.strategy, e.cost->time_us, e.expected_accepted};
}

std::vector<Choice> choices_of(const GuardedBucket& bucket) {
  std::vector<Choice> out;
  for (std::size_t i = 0; i < bucket.ranked.size(); ++i) {
    out.push_back(
        {bucket.ranked[i], bucket.expected[i].step_us, bucket.expected[i].expected_accepted});
  }
  return out;
}

}  // namespace

std::vector<Choice> Cell::needed() const {
  std::vector<Choice> out = ranked;
  out.push_back(*base);
  return out;
}

Cell cell_of(const PlanTable& table, std::int64_t bucket, PrecisionClass precision) {
  Cell cell{.ranked = choices_of(guarded_bucket(table, bucket, precision, GuardRule::kNextRanked)),
            .with_plain =
                choices_of(guarded_bucket(table, bucket, precision, GuardRule::kMostPromising))};
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
