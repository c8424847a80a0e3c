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

bool is_baseline(const PlanTable& table, std::int64_t bucket, const Strategy& strategy) {
  return std::any_of(table.baselines.begin(), table.baselines.end(), [&](const PlanBaseline& b) {
    return b.bucket == bucket && b.evaluation.strategy == strategy &&
           (b.role == "fixed" || b.role == "autoregressive");
  });
}

bool is_own(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
            const Strategy& strategy) {
  return strategy.precision() == precision && !is_baseline(table, bucket, strategy);
}

}  // namespace

std::vector<Choice> Cell::needed() const {
  std::vector<Choice> out = ranked;
  out.push_back(*base);
  return out;
}

Cell cell_of(const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
             const std::vector<Strategy>& passed_over) {
  const TupleRefusal refusal = [&](const Strategy& strategy) {
    return std::string(std::find(passed_over.begin(), passed_over.end(), strategy) ==
                               passed_over.end()
                           ? ""
                           : "passed over");
  };
  const auto choices = [&](GuardRule rule) {
    std::vector<Choice> out = choices_of(guarded_bucket(table, bucket, precision, rule, refusal));
    // A baseline that ranks before what is played stands in for it no more than behind it.
    const auto own = std::find_if(out.begin(), out.end(), [&](const Choice& choice) {
      return is_own(table, bucket, precision, choice.strategy);
    });
    if (!passed_over.empty() && own != out.end()) {
      std::rotate(out.begin(), own, own + 1);
    }
    return out;
  };
  Cell cell{.ranked = choices(GuardRule::kNextRanked),
            .with_plain = choices(GuardRule::kMostPromising)};
  for (const PlanBaseline& b : table.baselines) {
    if (b.bucket == bucket && b.role == "fixed") {
      cell.base = choice_of(b.evaluation);
    } else if (b.bucket == bucket && b.role == "autoregressive") {
      cell.autoregressive = choice_of(b.evaluation);
    }
  }
  return cell;
}

std::optional<std::vector<Strategy>> ranked_before_playable(
    const PlanTable& table, std::int64_t bucket, PrecisionClass precision,
    const std::function<bool(const Strategy&)>& plays) {
  std::vector<Strategy> before;
  for (const Strategy& strategy :
       whole_cell(table, bucket, precision, GuardRule::kNextRanked).ranked) {
    if (!can_be_recorded(strategy) || !plays(strategy)) {
      before.push_back(strategy);
    } else if (before.empty() || is_own(table, bucket, precision, strategy)) {
      return before;
    }
  }
  return std::nullopt;
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
  if (!ranked_before_playable(table, bucket, precision, [](const Strategy&) { return true; })) {
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
