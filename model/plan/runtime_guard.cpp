#include "model/plan/runtime_guard.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "model/words/assert.h"
#include "model/words/error.h"
#include "model/words/formatted.h"

namespace versieve {
namespace {

constexpr const char* kConstantNames = "alpha, drop_ratio, warmup, hysteresis, max_transitions";

template <class Number>
void read_number(const std::string& name, const std::string& text, Number& out) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (status != std::errc() || end != text.data() + text.size()) {
    throw Error(ExitCode::kUsage, "the guard's " + name + " is not " +
                                      (std::is_integral_v<Number> ? "a whole number" : "a number") +
                                      ": '" + text + "'");
  }
}

void read_constant(const std::string& name, const std::string& text, GuardConstants& out) {
  if (name == "alpha") {
    read_number(name, text, out.alpha);
  } else if (name == "drop_ratio") {
    read_number(name, text, out.drop_ratio);
  } else if (name == "warmup") {
    read_number(name, text, out.warmup);
  } else if (name == "hysteresis") {
    read_number(name, text, out.hysteresis);
  } else if (name == "max_transitions") {
    read_number(name, text, out.max_transitions);
  } else {
    throw Error(ExitCode::kUsage, "unknown constant '" + name + "' of the guard: write some of " +
                                      kConstantNames + " as alpha=0.2,warmup=8");
  }
}

// P(at most `accepted` drafted tokens are accepted in `steps` steps of mean yield `mean`), each
// step's yield geometric.
double chance_of_so_few(double steps, double accepted, double mean) {
  const double stops = 1.0 / mean;  // after each token
  double term = std::pow(stops, steps);
  double sum = term;
  for (double k = 1.0; k <= accepted; k += 1.0) {
    term *= (steps + k - 1.0) / k * (1.0 - stops);
    sum += term;
  }
  return sum;
}

template <class Field>
void add_values(const char* constant, Field GuardConstants::*field, std::array<Field, 2> values,
                const GuardConstants& given, std::vector<VariedGuard>& out) {
  for (const Field value : values) {
    GuardConstants changed = given;
    changed.*field = value;
    out.push_back({formatted("%s %g", constant, static_cast<double>(value)), changed});
  }
}

bool is_plain(const GuardedTuple& tuple) {
  return tuple.expected_accepted == 1.0;
}

}  // namespace

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

GuardConstants with_constants(GuardConstants constants, const std::string& text) {
  std::string named;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    if (named.find("," + name + ",") != std::string::npos) {
      throw Error(ExitCode::kUsage, "the guard's " + name + " is given twice");
    }
    read_constant(name, equals < part.size() ? part.substr(equals + 1) : std::string(), constants);
    named += "," + name + ",";
    at = comma + 1;
  }
  if (const std::string invalid = invalid_because(constants); !invalid.empty()) {
    throw Error(ExitCode::kUsage, invalid);
  }
  return constants;
}

std::string text_of(const GuardConstants& c) {
  return formatted("alpha=%g,drop_ratio=%g,warmup=%lld,hysteresis=%lld,max_transitions=%lld",
                   c.alpha, c.drop_ratio, static_cast<long long>(c.warmup),
                   static_cast<long long>(c.hysteresis), static_cast<long long>(c.max_transitions));
}

std::vector<VariedGuard> one_factor_settings(const GuardConstants& given) {
  std::vector<VariedGuard> out;
  add_values("alpha", &GuardConstants::alpha, {0.1, 0.4}, given, out);
  add_values("drop_ratio", &GuardConstants::drop_ratio, {0.75, 0.95}, given, out);
  add_values<std::int64_t>("warmup", &GuardConstants::warmup, {4, 16}, given, out);
  add_values<std::int64_t>("hysteresis", &GuardConstants::hysteresis, {2, 10}, given, out);
  return out;
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
    : RuntimeGuard(constants, rule, {GuardStage{.after = 0, .ranked = std::move(ranked)}}, 0) {}

RuntimeGuard::RuntimeGuard(const GuardConstants& constants, GuardRule rule,
                           std::vector<GuardStage> stages, std::int64_t context_len)
    : constants_(constants),
      rule_(rule),
      stages_(std::move(stages)),
      context_(static_cast<double>(context_len)) {
  VERSIEVE_ASSERT(!stages_.empty() &&
                      std::none_of(stages_.begin(), stages_.end(),
                                   [](const GuardStage& stage) { return stage.ranked.empty(); }),
                  "a guard chooses among tuples");
  VERSIEVE_ASSERT(invalid_because(constants_).empty(), "constants are checked where they come in");
  seen_.resize(ranked().size());
}

bool RuntimeGuard::pass(double tokens) {
  return grow(tokens);
}

bool RuntimeGuard::observe(double tokens, double step_us) {
  seen_[active_].steps += 1.0;
  seen_[active_].tokens += tokens;
  seen_[active_].microseconds += step_us;
  smoothed_ = steps_ == 0 ? tokens : smoothed_ + constants_.alpha * (tokens - smoothed_);
  ++steps_;
  if (grow(tokens)) {
    return true;
  }
  if (settled_) {
    return false;
  }
  if (left_ && static_cast<double>(steps_) >= kPriorSteps) {
    return come_back();
  }
  if (steps_ <= constants_.warmup) {
    return rule_ == GuardRule::kMostPromising && !left_early_ && is_another_kind() && leave_early();
  }
  const bool low = smoothed_ < constants_.drop_ratio * ranked()[active_].expected_accepted;
  low_steps_ = low ? low_steps_ + 1 : 0;
  return low_steps_ >= constants_.hysteresis && move_on();
}

// True where another stage's tuples are ranked from now on.
bool RuntimeGuard::grow(double tokens) {
  context_ += tokens;
  std::size_t stage = stage_;
  while (stage + 1 < stages_.size() && context_ > static_cast<double>(stages_[stage + 1].after)) {
    ++stage;
  }
  if (stage == stage_) {
    return false;
  }
  enter(stage);
  return true;
}

void RuntimeGuard::enter(std::size_t stage) {
  const bool plain = is_plain(ranked()[active_]);
  for (; stage_ < stage; ++stage_) {
    before_ += ranked().size();
  }
  const auto next_plain = std::find_if(ranked().begin(), ranked().end(), is_plain);
  const std::size_t rank = plain && next_plain != ranked().end()
                               ? static_cast<std::size_t>(next_plain - ranked().begin())
                               : std::min(active_, ranked().size() - 1);
  seen_.assign(ranked().size(), {});
  left_.reset();
  activate(rank);
}

bool RuntimeGuard::is_another_kind() const {
  const Seen& seen = seen_[active_];
  const double mean = constants_.drop_ratio * ranked()[active_].expected_accepted;
  return mean > 1.0 && chance_of_so_few(seen.steps, seen.tokens - seen.steps, mean) < kEarlyChance;
}

bool RuntimeGuard::leave_early() {
  const std::size_t from = active_;
  another_kind_ = true;
  const bool moves = move_on();
  another_kind_ = false;
  if (moves && !settled_) {
    left_early_ = true;
    left_ = from;
  }
  return moves;
}

bool RuntimeGuard::come_back() {
  const std::size_t back = *left_;
  left_.reset();
  if (transitions_ == constants_.max_transitions) {
    return false;
  }
  ++transitions_;
  activate(back);
  return true;
}

bool RuntimeGuard::move_on() {
  const std::size_t next = rule_ == GuardRule::kNextRanked ? active_ + 1 : most_promising();
  if (next == active_) {
    low_steps_ = 0;  // to be asked again after as many low steps
    return false;
  }
  if (transitions_ == constants_.max_transitions || next == ranked().size()) {
    return settle();
  }
  ++transitions_;
  activate(next);
  return true;
}

// Tokens a microsecond if a step accepts that share of the drafted tokens that are expected of it.
double RuntimeGuard::promise(std::size_t rank, double share) const {
  const GuardedTuple& tuple = ranked()[rank];
  return (1.0 + share * (tuple.expected_accepted - 1.0)) / tuple.step_us;
}

// Tokens a step that the request will go on to accept of the active tuple: its own steps weighed
// against what texts do.
double RuntimeGuard::judged_mean() const {
  const Seen& seen = seen_[active_];
  const double prior = another_kind_ ? 0.0 : kPriorSteps;
  return (seen.tokens + prior * ranked()[active_].expected_accepted) / (seen.steps + prior);
}

// The earlier ranked of equals, the active one before all.
std::size_t RuntimeGuard::most_promising() const {
  const double expected = ranked()[active_].expected_accepted;
  const double share = std::max(0.0, judged_mean() - 1.0) / std::max(1e-9, expected - 1.0);
  std::size_t best = active_;
  for (std::size_t rank = 0; rank < ranked().size(); ++rank) {
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
