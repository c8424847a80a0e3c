#include "engine/analyse/serve/serving_text.h"

#include <algorithm>
#include <vector>

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

// What a word of the last column stands for.
const char* meaning_of(StepTimes times) {
  switch (times) {
    case StepTimes::kTimed:
      return "steps with the draft and without one were timed at these requests";
    case StepTimes::kBetween:
      return "steps of a longer draft were timed, and this one lies between it and none";
    case StepTimes::kRoofline:
      return "no such step was timed: the machine's data sheet stands in";
    case StepTimes::kModel:
      break;
  }
  return "a cost model's prediction";
}

// For a reader who has never seen such a table.
std::string legend(const std::vector<const ServingChoice*>& shown) {
  if (shown.empty()) {
    return "";
  }
  const DraftChoice& draft = shown.front()->draft;
  std::string out = formatted(
      "how to read it: %s drafts %lld tokens deep, %lld a level, and a step checks %lld "
      "tokens, the newest accepted one among them (dense/%s/... elsewhere is the same draft). A "
      "step yields so many tokens, the one that the server adds itself counted, and takes as long "
      "as so many steps without a draft (breaks even at): it pays where it yields more. [ ] hold "
      "90 %% of what is likely, p is the chance that no draft is faster.\n",
      draft_text(draft).c_str(), static_cast<long long>(draft.depth),
      static_cast<long long>(draft.width), static_cast<long long>(draft.nodes),
      draft_text(draft).c_str());
  for (const StepTimes times :
       {StepTimes::kTimed, StepTimes::kBetween, StepTimes::kRoofline, StepTimes::kModel}) {
    if (std::any_of(shown.begin(), shown.end(),
                    [times](const ServingChoice* c) { return c->times == times; })) {
      out += formatted("  %s: %s\n", name_of(times), meaning_of(times));
    }
  }
  return out;
}

const char* verdict_of(const ServingChoice& choice) {
  const bool is_guess = choice.times == StepTimes::kRoofline || choice.times == StepTimes::kModel;
  return choice.gain() > 1.0 ? (is_guess ? "should pay" : "pays")
                             : (is_guess ? "should not pay" : "does not pay");
}

}  // namespace

std::string serving_text(const ServingSchedule& schedule) {
  std::string out;
  std::vector<const ServingChoice*> shown;
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
    shown.push_back(&*best);
    out += formatted(
        "%-9s %s%.2f tokens a step [%.2f, %.2f], breaks even at %.2f [%.2f, %.2f]: %s (loses with "
        "p = %.2f; %s)\n",
        draft_text(best->draft).c_str(), best->at_least ? "at least " : "", best->tokens,
        best->tokens_interval.low, best->tokens_interval.high, best->break_even,
        best->break_even_interval.low, best->break_even_interval.high, verdict_of(*best),
        best->loses, name_of(best->times));
  }
  out += legend(shown);
  for (const std::string& note : schedule.notes) {
    out += "note: " + note + "\n";
  }
  return out;
}

}  // namespace versieve::engine
