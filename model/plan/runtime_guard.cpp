#include "model/plan/runtime_guard.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve {

std::string invalid_because(const GuardConstants& c) {
  if (!(c.alpha > 0.0 && c.alpha <= 1.0)) {
    return "the guard's alpha must be above 0 and at most 1";
  }
  if (!(c.drop_ratio >= 0.0 && std::isfinite(c.drop_ratio))) {
    return "the guard's drop ratio must be a number from 0 on";
  }
  if (c.warmup < 0 || c.max_transitions < 0) {
    return "the guard's warm-up and transitions must not be negative";
  }
  return c.hysteresis < 1 ? "the guard's hysteresis must be at least one step" : "";
}

const char* name_of(GuardRule rule) {
  return rule == GuardRule::kNextRanked ? "ranked" : "promise";
}

GuardRule parse_guard_rule(const std::string& name) {
  for (const GuardRule rule : {GuardRule::kNextRanked, GuardRule::kMostPromising}) {
    if (name == name_of(rule)) {
      return rule;
    }
  }
  throw Error(ExitCode::kUsage, "unknown guard '" + name + "': the guards are promise, ranked");
}

RuntimeGuard::RuntimeGuard(const GuardConstants& constants, GuardRule rule,
                           std::vector<GuardedTuple> ranked)
    : constants_(constants), rule_(rule), ranked_(std::move(ranked)), seen_(ranked_.size()) {
  VERSIEVE_ASSERT(!ranked_.empty(), "a guard chooses among tuples");
  VERSIEVE_ASSERT(invalid_because(constants_).empty(), "constants are checked where they come in");
}

bool RuntimeGuard::observe(double tokens, double step_us) {
  seen_[active_].steps += 1.0;
  seen_[active_].tokens += tokens;
  seen_[active_].microseconds += step_us;
  smoothed_ = steps_ == 0 ? tokens : smoothed_ + constants_.alpha * (tokens - smoothed_);
  ++steps_;
  if (settled_) {
    return false;
  }
  const bool low = steps_ > constants_.warmup &&
                   smoothed_ < constants_.drop_ratio * ranked_[active_].expected_accepted;
  low_steps_ = low ? low_steps_ + 1 : 0;
  return low_steps_ >= constants_.hysteresis && move_on();
}

bool RuntimeGuard::move_on() {
  const std::size_t next = rule_ == GuardRule::kNextRanked ? active_ + 1 : most_promising();
  if (next == active_) {
    low_steps_ = 0;  // to be asked again after as many low steps
    return false;
  }
  if (transitions_ == constants_.max_transitions || next == ranked_.size()) {
    return settle();
  }
  ++transitions_;
  activate(next);
  return true;
}

// Tokens a microsecond if a step accepts that share of the drafted tokens that are expected of it.
double RuntimeGuard::promise(std::size_t rank, double share) const {
  const GuardedTuple& tuple = ranked_[rank];
  return (1.0 + share * (tuple.expected_accepted - 1.0)) / tuple.step_us;
}

// Tokens a step that the request will go on to accept of the active tuple: its own steps weighed
// against what texts do.
double RuntimeGuard::judged_mean() const {
  const Seen& seen = seen_[active_];
  return (seen.tokens + kPriorSteps * ranked_[active_].expected_accepted) /
         (seen.steps + kPriorSteps);
}

// The earlier ranked of equals, the active one before all.
std::size_t RuntimeGuard::most_promising() const {
  const double expected = ranked_[active_].expected_accepted;
  const double share = std::max(0.0, judged_mean() - 1.0) / std::max(1e-9, expected - 1.0);
  std::size_t best = active_;
  for (std::size_t rank = 0; rank < ranked_.size(); ++rank) {
    if (promise(rank, share) > promise(best, share)) {
      best = rank;
    }
  }
  return best;
}

// The tuple that yielded most tokens a second in this request; the earlier ranked of equals.
bool RuntimeGuard::settle() {
  settled_ = true;
  std::size_t best = active_;
  for (std::size_t rank = 0; rank < seen_.size(); ++rank) {
    const Seen& seen = seen_[rank];
    const double gives = seen.tokens * seen_[best].microseconds;
    const double best_gives = seen_[best].tokens * seen.microseconds;
    if (gives > best_gives || (gives == best_gives && seen.tokens > 0.0 && rank < best)) {
      best = rank;
    }
  }
  const bool moves = best != active_;
  activate(best);
  return moves;
}

void RuntimeGuard::activate(std::size_t rank) {
  active_ = rank;
  steps_ = 0;
  low_steps_ = 0;
}

}  // namespace versieve
