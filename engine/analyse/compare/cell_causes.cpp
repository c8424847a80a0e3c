#include "engine/analyse/compare/cell_causes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

constexpr double kFelt = 5e-4;  // of tokens a step and of step times

std::string then(const std::string& what, const std::string& before, const std::string& after) {
  return what + " " + (before.empty() ? "none" : before) + ", then " +
         (after.empty() ? "none" : after);
}

std::string count_text(std::int64_t count) {
  return std::to_string(count);
}

void note(std::vector<MovedInput>& moved, PlanInput input, const std::string& what,
          const std::string& before, const std::string& after) {
  if (before != after) {
    moved.push_back({input, then(what, before, after)});
  }
}

std::string limit_text(const PlanTable& table) {
  return table.max_loss ? formatted("%g nats a token", *table.max_loss) : std::string("no limit");
}

std::string buckets_text(const PlanTable& table) {
  std::string text;
  for (const ContextBucket& bucket : table.buckets) {
    text += (text.empty() ? "" : ",") + name_of(bucket);
  }
  return text;
}

std::string classes_text(const PlanTable& table) {
  std::string text;
  for (const PrecisionClass precision : table.classes) {
    text += std::string(text.empty() ? "" : ", ") + name_of(precision);
  }
  return text;
}

std::string baseline_text(const PlanTable& table) {
  const auto found =
      std::find_if(table.baselines.begin(), table.baselines.end(),
                   [](const PlanBaseline& baseline) { return baseline.role == "fixed"; });
  return found == table.baselines.end() ? "" : found->evaluation.strategy.text();
}

void note_points(std::vector<MovedInput>& moved, const PlanTable& before, const PlanTable& after) {
  const std::set<std::string> old_runs(before.runs.begin(), before.runs.end());
  const std::set<std::string> new_runs(after.runs.begin(), after.runs.end());
  const auto missing = [](const std::set<std::string>& from, const std::set<std::string>& in) {
    return std::count_if(from.begin(), from.end(),
                         [&in](const std::string& run) { return !in.contains(run); });
  };
  if (old_runs == new_runs && before.fit_points == after.fit_points) {
    return;
  }
  moved.push_back(
      {PlanInput::kPoints, then("points that the fit rests on", count_text(before.fit_points),
                                count_text(after.fit_points)) +
                               "; runs that came " + count_text(missing(new_runs, old_runs)) +
                               ", that went " + count_text(missing(old_runs, new_runs))});
}

// Of the strategies that both tables price in the same bucket.
struct Shared {
  double tokens = 0.0;  // the largest |log| of then / before
  double step = 0.0;
  bool price = false;
  std::int64_t strategies = 0;
};

const PlanEntry* entry_of(const PlanTable& table, std::int64_t bucket, const Strategy& strategy) {
  const auto found =
      std::find_if(table.entries.begin(), table.entries.end(), [&](const PlanEntry& entry) {
        return entry.bucket == bucket && entry.evaluation.strategy == strategy;
      });
  return found == table.entries.end() ? nullptr : &*found;
}

double step_us(const PlanEntry& entry) {
  return entry.evaluation.cost
             ? entry.evaluation.cost->time_us
             : 1e6 * entry.evaluation.expected_accepted / entry.evaluation.throughput;
}

bool is_same_price(const LossPrice& a, const LossPrice& b) {
  return a.from == b.from && a.kl_nats.value == b.kl_nats.value && a.kl_nats.high == b.kl_nats.high;
}

Shared shared_of(const PlanTable& before, const PlanTable& after) {
  Shared shared;
  for (const PlanEntry& old_entry : before.entries) {
    const std::int64_t bucket =
        bucket_index(after, before.buckets[static_cast<std::size_t>(old_entry.bucket)]);
    const PlanEntry* entry =
        bucket < 0 ? nullptr : entry_of(after, bucket, old_entry.evaluation.strategy);
    if (entry == nullptr) {
      continue;
    }
    shared.strategies += 1;
    shared.tokens =
        std::max(shared.tokens, std::fabs(std::log(entry->evaluation.expected_accepted /
                                                   old_entry.evaluation.expected_accepted)));
    shared.step = std::max(shared.step, std::fabs(std::log(step_us(*entry) / step_us(old_entry))));
    shared.price = shared.price || !is_same_price(old_entry.price, entry->price);
  }
  return shared;
}

bool has(const std::vector<MovedInput>& moved, PlanInput input) {
  return std::any_of(moved.begin(), moved.end(),
                     [input](const MovedInput& m) { return m.input == input; });
}

// Whose doing another step time is: the machine's, else that of what was asked for, the points',
// the fit's.
PlanInput step_input(const std::vector<MovedInput>& moved) {
  for (const PlanInput input : {PlanInput::kMachine, PlanInput::kModel, PlanInput::kPoints}) {
    if (has(moved, input)) {
      return input;
    }
  }
  return has(moved, PlanInput::kFit) ? PlanInput::kFit : PlanInput::kOptions;
}

PlanInput token_input(const std::vector<MovedInput>& moved) {
  return has(moved, PlanInput::kAcceptance) ? PlanInput::kAcceptance
         : has(moved, PlanInput::kModel)    ? PlanInput::kModel
                                            : PlanInput::kOptions;
}

std::string percent(double ratio, const char* more, const char* less) {
  return formatted("%.1f %% ", 100.0 * std::fabs(ratio - 1.0)) + (ratio > 1.0 ? more : less);
}

// What one strategy that both tables price felt.
std::string felt(const PlanEntry& before, const PlanEntry& after,
                 const std::vector<MovedInput>& moved, std::vector<PlanInput>& because) {
  std::string text;
  const double step = step_us(after) / step_us(before);
  if (std::fabs(std::log(step)) > kFelt) {
    because.push_back(step_input(moved));
    text +=
        "its step takes " + percent(step, "longer", "less") + " (" + name_of(because.back()) + ")";
  }
  const double tokens = after.evaluation.expected_accepted / before.evaluation.expected_accepted;
  if (std::fabs(std::log(tokens)) > kFelt) {
    because.push_back(token_input(moved));
    text += std::string(text.empty() ? "" : ", ") + "a step yields " +
            percent(tokens, "more", "fewer") + " tokens (" + name_of(because.back()) + ")";
  }
  return text;
}

// What moved of that which ranks: where a strategy has no number in one of the tables, nothing
// tells which of them did it.
void add_all(const std::vector<MovedInput>& moved, std::vector<PlanInput>& because) {
  const std::size_t before = because.size();
  for (const MovedInput& m : moved) {
    if (m.input != PlanInput::kPrice && m.input != PlanInput::kOptions) {
      because.push_back(m.input);
    }
  }
  if (because.size() == before) {
    because.push_back(has(moved, PlanInput::kPrice) ? PlanInput::kPrice : PlanInput::kOptions);
  }
}

// Why a table ranks nothing of the strategy that wins in the other one.
std::string absent_text(const PlanEntry& winner, const PlanTable& table, std::int64_t bucket,
                        PrecisionClass precision, const std::vector<MovedInput>& moved,
                        std::vector<PlanInput>& because) {
  const std::string name = winner.evaluation.strategy.text();
  if (table.max_loss && winner.baseline.empty() &&
      (!winner.price.is_known() || winner.price.kl_nats.high > *table.max_loss)) {
    because.push_back(PlanInput::kPrice);
    return "the limit of losses leaves " + name + " out";
  }
  add_all(moved, because);
  const std::vector<const PlanEntry*> entries = entries_of(table, bucket, precision);
  return name + " is not among the " + std::to_string(entries.size()) +
         (entries.empty() ? " entries"
                          : " ranks, which end at " +
                                formatted("%.1f tok/s", entries.back()->evaluation.throughput));
}

void explain_one_alone(ComparedCell& cell, const PlanTable& before, const PlanTable& after) {
  const bool is_new = cell.before == nullptr;
  const PlanTable& lacking = is_new ? before : after;
  const std::int64_t bucket = bucket_index(lacking, cell.bucket);
  const auto reason = std::find_if(lacking.unavailable.begin(), lacking.unavailable.end(),
                                   [&](const UnavailableCell& u) {
                                     return u.bucket == bucket && u.precision == cell.precision;
                                   });
  const bool is_limit = lacking.max_loss.has_value();
  cell.because = {reason != lacking.unavailable.end() && !is_limit ? PlanInput::kPoints
                  : is_limit                                       ? PlanInput::kPrice
                                                                   : PlanInput::kOptions};
  cell.why = std::string(is_new ? "the first" : "the second") + " table has no entry here" +
             (reason != lacking.unavailable.end() ? ": " + reason->reason : std::string());
}

}  // namespace

std::int64_t bucket_index(const PlanTable& table, const ContextBucket& bucket) {
  const auto found = std::find(table.buckets.begin(), table.buckets.end(), bucket);
  return found == table.buckets.end() ? -1 : found - table.buckets.begin();
}

bool is_within_noise(const PlanEntry& a, const PlanEntry& b) {
  const Interval& one = compared_interval(a.evaluation);
  const Interval& two = compared_interval(b.evaluation);
  return one.low <= two.high && two.low <= one.high;
}

std::vector<MovedInput> moved_inputs(const PlanTable& before, const PlanTable& after) {
  std::vector<MovedInput> moved;
  note(moved, PlanInput::kMachine, "planned for", before.hardware, after.hardware);
  note(moved, PlanInput::kMachine, "step times of", before.fit_device, after.fit_device);
  note(moved, PlanInput::kModel, "model", before.model, after.model);
  note(moved, PlanInput::kModel, "draft's tokens", count_text(before.draft_vocab),
       count_text(after.draft_vocab));
  note_points(moved, before, after);
  const Shared shared = shared_of(before, after);
  if (shared.step > kFelt && moved.empty()) {
    moved.push_back(
        {PlanInput::kFit, "the same points on the same machine give other step times, by up to " +
                              formatted("%.1f %%", 100.0 * std::expm1(shared.step)) +
                              ": another fit, or other code"});
  }
  note(moved, PlanInput::kAcceptance, "tokens a step of", acceptance_text(before),
       acceptance_text(after));
  if (shared.tokens > kFelt && !has(moved, PlanInput::kAcceptance)) {
    moved.push_back(
        {PlanInput::kAcceptance, "the same strategies yield up to " +
                                     formatted("%.1f %%", 100.0 * std::expm1(shared.tokens)) +
                                     " more or fewer tokens a step: other acceptance points"});
  }
  note(moved, PlanInput::kPrice, "losses:", limit_text(before), limit_text(after));
  if (shared.price) {
    moved.push_back({PlanInput::kPrice, "what strategies lose was measured anew"});
  }
  note(moved, PlanInput::kOptions, "context ranges", buckets_text(before), buckets_text(after));
  note(moved, PlanInput::kOptions, "classes", classes_text(before), classes_text(after));
  note(moved, PlanInput::kOptions, "baseline", baseline_text(before), baseline_text(after));
  note(moved, PlanInput::kOptions, "launches", before.launch, after.launch);
  note(moved, PlanInput::kOptions, "element", before.dtype, after.dtype);
  note(moved, PlanInput::kOptions, "tuples that can run", count_text(before.runnable),
       count_text(after.runnable));
  return moved;
}

void explain(ComparedCell& cell, const PlanTable& before, const PlanTable& after,
             const std::vector<MovedInput>& moved) {
  if (cell.before == nullptr || cell.after == nullptr) {
    explain_one_alone(cell, before, after);
    return;
  }
  const std::int64_t was_at = bucket_index(before, cell.bucket);
  const std::int64_t is_at = bucket_index(after, cell.bucket);
  const Strategy& old_winner = cell.before->evaluation.strategy;
  const Strategy& new_winner = cell.after->evaluation.strategy;
  std::vector<PlanInput> because;
  std::vector<std::string> parts;
  const PlanEntry* old_then = entry_of(after, is_at, old_winner);
  const PlanEntry* new_before = entry_of(before, was_at, new_winner);
  if (old_winner == new_winner) {
    parts.push_back(felt(*cell.before, *cell.after, moved, because));
  } else {
    const std::string won = new_before != nullptr ? felt(*new_before, *cell.after, moved, because)
                                                  : absent_text(*cell.after, before, was_at,
                                                                cell.precision, moved, because);
    parts.push_back(won.empty()             ? won
                    : new_before != nullptr ? "of the new winner " + won
                                            : "before, " + won);
    const std::string lost = old_then != nullptr ? felt(*cell.before, *old_then, moved, because)
                                                 : absent_text(*cell.before, after, is_at,
                                                               cell.precision, moved, because);
    parts.push_back(lost.empty()          ? lost
                    : old_then != nullptr ? "of the former winner " + lost
                                          : "now " + lost);
  }
  for (const std::string& part : parts) {
    cell.why += (cell.why.empty() || part.empty() ? "" : "; ") + part;
  }
  if (cell.change == CellChange::kTiedWinner) {
    cell.why += std::string(cell.why.empty() ? "" : "; ") + "their intervals overlap";
  }
  std::sort(because.begin(), because.end());
  because.erase(std::unique(because.begin(), because.end()), because.end());
  cell.because = std::move(because);
}

}  // namespace versieve::engine
