#include "engine/analyse/serve/planned_schedule.h"

#include <algorithm>

#include "engine/analyse/plan/entry_aims.h"
#include "model/plan/concurrency.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

ServingChoice choice_of(const Evaluation& e, const Evaluation& plain) {
  const Speculation s = speculation_of(e, plain);
  const double most = static_cast<double>(e.strategy.draft.levels() + 1);
  return {.draft = e.strategy.draft,
          .tokens = std::clamp(e.expected_accepted, 1.0, most),
          .tokens_interval = {std::clamp(e.accepted_interval.low, 1.0, most),
                              std::clamp(e.accepted_interval.high, 1.0, most)},
          .break_even = s.break_even,
          .break_even_interval = s.break_even_interval,
          .loses = s.loses,
          .token_source = TokenSource::kPlanned,
          .times = StepTimes::kModel};
}

// The choices of a cell, of two tuples with one draft the better one: an engine knows no
// difference.
class Choices {
 public:
  Choices(const PlanTable& whole, const Evaluation& plain) : whole_(whole), plain_(plain) {}

  void add(const Evaluation& e) {
    const bool is_draft = e.strategy.draft.speculates() && !e.strategy.drafts_itself;
    if (is_draft && e.strategy.precision() == PrecisionClass::kStrict) {
      take({choice_of(e, plain_), yield(e)});
    }
  }
  // The best first by the plan's objective, plain decoding among them.
  std::vector<ServingChoice> ranked() {
    take({{.draft = {}, .token_source = TokenSource::kPlanned, .times = StepTimes::kModel},
          yield(plain_)});
    std::stable_sort(all_.begin(), all_.end(), [](const Priced& a, const Priced& b) {
      return a.yield != b.yield ? a.yield > b.yield : a.choice.draft.nodes < b.choice.draft.nodes;
    });
    std::vector<ServingChoice> out;
    for (const Priced& priced : all_) {
      out.push_back(priced.choice);
    }
    return out;
  }

 private:
  struct Priced {
    ServingChoice choice;
    double yield = 0.0;
  };

  double yield(const Evaluation& e) const {
    return yield_of(whole_.aims.objective, whole_.energy, e);
  }
  void take(const Priced& priced) {
    const auto same = std::find_if(all_.begin(), all_.end(), [&](const Priced& known) {
      return known.choice.draft == priced.choice.draft;
    });
    if (same == all_.end()) {
      all_.push_back(priced);
    } else if (priced.yield > same->yield) {
      *same = priced;
    }
  }

  const PlanTable& whole_;
  const Evaluation& plain_;
  std::vector<Priced> all_;
};

// No choices: nothing of class Strict was planned there. A baseline keeps the plan's bounds too.
ServingCell cell_of(const PlanTable& whole, const PlanTable& t, std::int64_t bucket) {
  ServingCell cell;
  const std::vector<const PlanEntry*> entries = entries_of(t, bucket, PrecisionClass::kStrict);
  const Evaluation* const plain = plain_of(t, bucket);
  if (entries.empty() || plain == nullptr) {
    return cell;
  }
  Choices choices(whole, *plain);
  for (const PlanEntry* e : entries) {
    choices.add(e->evaluation);
  }
  const std::int64_t tokens = t.buckets[static_cast<std::size_t>(bucket)].high;
  for (const PlanBaseline& b : t.baselines) {
    if (b.bucket == bucket && b.role == "chain" &&
        keeps_bounds(whole.aims, b.evaluation, t.concurrency, tokens)) {
      choices.add(b.evaluation);
    }
  }
  cell.choices = choices.ranked();
  return cell;
}

void add_bucket(const PlanTable& t, std::int64_t bucket, ServingSchedule& out) {
  const ContextBucket& range = t.buckets[static_cast<std::size_t>(bucket)];
  std::int64_t low = 1;
  for (const PlanTable* of : by_concurrency(t)) {
    ServingCell cell = cell_of(t, *of, bucket);
    if (cell.choices.empty()) {
      return;  // more requests have none either
    }
    cell.context_low = range.low;
    cell.context_high = range.high;
    cell.requests_low = low;
    cell.requests_high = of->concurrency;
    out.cells.push_back(std::move(cell));
    low = of->concurrency + 1;
  }
}

void add_notes(const PlanTable& t, ServingSchedule& out) {
  out.notes.push_back(
      "tokens and times are the planner's, of this project's engine: they rank drafts and predict "
      "no server");
  if (!t.batched.empty()) {
    out.notes.push_back(batch_text(t));
  }
  if (t.sources) {
    out.notes.push_back("evidence of " + sources_text(t));
  }
  if (t.aims.bounds()) {
    out.notes.push_back(
        "only drafts that 90 % of such requests see" + within_text(t.aims) +
        " are in it, and plain decoding where an engine takes none of them");
  }
  if (t.aims.objective == Objective::kEnergy) {
    out.notes.push_back("drafts are chosen by tokens a joule");
  }
  for (const SwitchPoint& s : t.switches) {
    if (s.precision == PrecisionClass::kStrict) {
      out.notes.push_back("contexts of " + name_of(t.buckets[static_cast<std::size_t>(s.bucket)]) +
                          " tokens: " + text_of(s, t));
    }
  }
}

}  // namespace

ServingSchedule planned_schedule(const PlanTable& t) {
  if (t.draft_is_model) {
    throw Error(ExitCode::kAnswerNo,
                "the table's draft is a model of its own, and schedules by requests at a time are "
                "written for draft heads alone: plan without --concurrency for one setting");
  }
  ServingSchedule out{.pair = t.sources && t.sources->pair ? t.sources->pair->name : t.model,
                      .device = t.hardware,
                      .hardware = t.hardware};
  for (std::size_t b = 0; b < t.buckets.size(); ++b) {
    add_bucket(t, static_cast<std::int64_t>(b), out);
  }
  if (out.cells.empty()) {
    throw Error(ExitCode::kAnswerNo,
                "the table has no entries of class Strict, and no server's setting has the like of "
                "the others by requests at a time");
  }
  add_notes(t, out);
  return out;
}

}  // namespace versieve::engine
