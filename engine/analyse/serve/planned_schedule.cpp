#include "engine/analyse/serve/planned_schedule.h"

#include <algorithm>

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

// Of two tuples with one draft an engine knows no difference: the better one stands for both.
void add_choice(const Evaluation& e, const Evaluation& plain, ServingCell& cell) {
  if (e.strategy.drafts_itself || !e.strategy.draft.speculates()) {
    return;
  }
  const ServingChoice choice = choice_of(e, plain);
  const auto same = std::find_if(cell.choices.begin(), cell.choices.end(),
                                 [&](const ServingChoice& c) { return c.draft == choice.draft; });
  if (same == cell.choices.end()) {
    cell.choices.push_back(choice);
  } else if (choice.gain() > same->gain()) {
    *same = choice;
  }
}

// No choices: nothing of class Strict was planned there.
ServingCell cell_of(const PlanTable& t, std::int64_t bucket) {
  ServingCell cell;
  const std::vector<const PlanEntry*> entries = entries_of(t, bucket, PrecisionClass::kStrict);
  const Evaluation* const plain = plain_of(t, bucket);
  if (entries.empty() || plain == nullptr) {
    return cell;
  }
  for (const PlanEntry* e : entries) {
    if (e->evaluation.strategy.precision() == PrecisionClass::kStrict) {
      add_choice(e->evaluation, *plain, cell);
    }
  }
  for (const PlanBaseline& b : t.baselines) {
    if (b.bucket == bucket && b.role == "chain") {
      add_choice(b.evaluation, *plain, cell);
    }
  }
  cell.choices.push_back(
      {.draft = {}, .token_source = TokenSource::kPlanned, .times = StepTimes::kModel});
  std::stable_sort(
      cell.choices.begin(), cell.choices.end(), [](const ServingChoice& a, const ServingChoice& b) {
        return a.gain() != b.gain() ? a.gain() > b.gain() : a.draft.nodes < b.draft.nodes;
      });
  return cell;
}

void add_bucket(const PlanTable& t, std::int64_t bucket, ServingSchedule& out) {
  const ContextBucket& range = t.buckets[static_cast<std::size_t>(bucket)];
  std::int64_t low = 1;
  for (const PlanTable* of : by_concurrency(t)) {
    ServingCell cell = cell_of(*of, bucket);
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
    out.notes.push_back("only drafts that keep the plan's bounds on time are in it");
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
