#include "engine/analyse/serve/serving_text.h"

#include <algorithm>

#include "engine/io/formatted.h"

namespace versieve::engine {

std::string draft_text(const DraftChoice& draft) {
  return draft.speculates()
             ? formatted("d%lldk%lldn%lld", static_cast<long long>(draft.depth),
                         static_cast<long long>(draft.width), static_cast<long long>(draft.nodes))
             : "no draft";
}

std::string requests_text(const ServingCell& cell) {
  if (cell.requests_low == cell.requests_high) {
    return cell.requests_high == 1
               ? "one request"
               : formatted("%lld requests", static_cast<long long>(cell.requests_high));
  }
  return formatted("%lld to %lld requests", static_cast<long long>(cell.requests_low),
                   static_cast<long long>(cell.requests_high));
}

namespace {

const char* verdict_of(const ServingChoice& choice) {
  const bool is_guess = choice.times == StepTimes::kRoofline || choice.times == StepTimes::kModel;
  return choice.gain() > 1.0 ? (is_guess ? "should pay" : "pays")
                             : (is_guess ? "should not pay" : "does not pay");
}

}  // namespace

std::string serving_text(const ServingSchedule& schedule) {
  std::string out;
  std::int64_t context = -1;
  for (const ServingCell& cell : schedule.cells) {
    if (cell.context_high != context) {
      out += formatted("contexts of %lld-%lld tokens\n", static_cast<long long>(cell.context_low),
                       static_cast<long long>(cell.context_high));
      context = cell.context_high;
    }
    const auto best = std::find_if(cell.choices.begin(), cell.choices.end(),
                                   [](const ServingChoice& c) { return c.draft.speculates(); });
    out += formatted("  %-18s ", requests_text(cell).c_str());
    if (best == cell.choices.end()) {
      out += "no draft\n";
      continue;
    }
    out += formatted(
        "%-9s %s%.2f tokens a step [%.2f, %.2f], breaks even at %.2f [%.2f, %.2f]: %s (loses with "
        "p = %.2f; %s)\n",
        draft_text(best->draft).c_str(), best->at_least ? "at least " : "", best->tokens,
        best->tokens_interval.low, best->tokens_interval.high, best->break_even,
        best->break_even_interval.low, best->break_even_interval.high, verdict_of(*best),
        best->loses, name_of(best->times));
  }
  for (const std::string& note : schedule.notes) {
    out += "note: " + note + "\n";
  }
  return out;
}

}  // namespace versieve::engine
