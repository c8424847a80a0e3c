#include "model/cost/acceptance.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "model/cost/adapted_chain.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

constexpr const char* kAllRefresh = "F*";
// Of tokens that approximate groups of the other order yield, beside those of this one (an
// assumption: of the one pair measured both ways they differ by 0.005).
constexpr double kOrderLogError = 0.03;

// One context range without any evidence of its own borrows the nearest one's and says so.
const AcceptanceModel::Positional* nearest(const AcceptanceModel& model, std::int64_t low,
                                           std::int64_t high) {
  const std::int64_t middle = (low + high) / 2;
  const AcceptanceModel::Positional* best = nullptr;
  std::int64_t best_distance = 0;
  for (const AcceptanceModel::Positional& p : model.positional) {
    const std::int64_t distance =
        std::max<std::int64_t>({0, p.context_low - middle, middle - p.context_high});
    if (best == nullptr || distance < best_distance) {
      best = &p;
      best_distance = distance;
    }
  }
  return best;
}

// Mean over the measured contexts of the range; steps weigh nothing, as regimes and prompts do not.
// The order counts only where a group's rows share one choice.
bool measured_mean(const AcceptanceModel& model, const Strategy& strategy, Traversal order,
                   const std::string& schedule, std::int64_t group, std::int64_t low,
                   std::int64_t high, AcceptedTokens& out) {
  double sum = 0.0;
  double variance = 0.0;
  double count = 0.0;
  for (const AcceptanceModel::Measured& m : model.measured) {
    if (!m.at_least && m.draft == strategy.draft && m.schedule == schedule &&
        m.approximate_group == group && (group == 1 || m.order == order) &&
        in_range(m.context_len, low, high)) {
      sum += m.mean;
      variance += m.standard_error * m.standard_error;
      count += 1.0;
    }
  }
  if (count == 0.0) {
    return false;
  }
  out.mean = sum / count;
  out.log_error = std::sqrt(variance) / sum;
  out.source =
      model.origin == AcceptanceOrigin::kImported ? Provenance::kImported : Provenance::kMeasured;
  return true;
}

// Probabilities of the children of a node at `depth` - 1, best first.
std::vector<double> child_probabilities(const AcceptanceModel::Positional& model,
                                        std::int64_t depth, std::int64_t width) {
  const double first =
      std::clamp(model.first * std::pow(model.decay, static_cast<double>(depth - 1)), 0.0, 1.0);
  std::vector<double> children;
  double reached = 0.0;
  for (std::int64_t j = 1; j <= width; ++j) {
    const double guesses = 1.0 + model.siblings * std::log(static_cast<double>(j));
    const double within = j == 1 ? first : 1.0 - std::pow(1.0 - first, guesses);
    children.push_back(within - reached);
    reached = within;
  }
  return children;
}

bool deeper_than_measured(const AcceptanceModel& model, std::int64_t depth) {
  return !model.measured.empty() &&
         std::all_of(model.measured.begin(), model.measured.end(),
                     [depth](const AcceptanceModel::Measured& m) { return m.draft.depth < depth; });
}

// Of a mean that is known.
double log_error_about(double mean, const AcceptanceModel::Positional& model,
                       const DraftChoice& draft) {
  constexpr double kDifference = 1e-4;
  const std::array<double, 9>& c = model.covariance;
  if (std::all_of(c.begin(), c.end(), [](double value) { return value == 0.0; })) {
    return model.log_error;
  }
  std::array<double, 3> slope{};  // of the logarithm, to first, siblings and decay
  for (std::size_t j = 0; j < slope.size(); ++j) {
    AcceptanceModel::Positional moved = model;
    (j == 0 ? moved.first : (j == 1 ? moved.siblings : moved.decay)) -= kDifference;
    slope[j] = std::log(mean / positional_accepted(moved, draft)) / kDifference;
  }
  double variance = model.log_error * model.log_error;
  for (std::size_t i = 0; i < slope.size(); ++i) {
    for (std::size_t j = 0; j < slope.size(); ++j) {
      variance += slope[i] * slope[j] * c[3 * i + j];
    }
  }
  return std::sqrt(variance);
}

// Of the strategy's tree with all layers refreshing and no sharing, as evidence for another.
AcceptedTokens plain_tokens(const AcceptanceModel& model, const Strategy& strategy,
                            std::int64_t context_low, std::int64_t context_high) {
  AcceptedTokens out;
  if (measured_mean(model, strategy, strategy.order, kAllRefresh, 1, context_low, context_high,
                    out)) {
    out.source = Provenance::kPredicted;
    return out;
  }
  const AcceptanceModel::Positional* range = nearest(model, context_low, context_high);
  VERSIEVE_ASSERT(range != nullptr, "the planner asks only a model with evidence");
  out.mean = positional_accepted(*range, strategy.draft);
  out.log_error = log_error_about(out.mean, *range, strategy.draft);
  out.source = Provenance::kPredicted;
  out.deeper = deeper_than_measured(model, strategy.draft.depth);
  out.outside_data = range->other_context || range->context_low > context_low ||
                     range->context_high < context_high;
  return out;
}

const AcceptanceModel::Variant* variant_of(const AcceptanceModel& model, const Strategy& strategy,
                                           Traversal order) {
  const std::int64_t group = approximate_group(strategy);
  for (const AcceptanceModel::Variant& v : model.variants) {
    if (v.schedule == strategy.schedule && v.approximate_group == group &&
        (group == 1 || v.order == order)) {
      return &v;
    }
  }
  return nullptr;
}

Traversal other(Traversal order) {
  return order == Traversal::kBfs ? Traversal::kDfs : Traversal::kBfs;
}

// What was measured of the schedule and groups with the rows in that order: of this tree, else of
// others.
bool measured_in(Traversal order, const AcceptanceModel& model, const Strategy& strategy,
                 std::int64_t low, std::int64_t high, AcceptedTokens& out) {
  if (measured_mean(model, strategy, order, strategy.schedule, approximate_group(strategy), low,
                    high, out)) {
    return true;
  }
  const AcceptanceModel::Variant* variant = variant_of(model, strategy, order);
  if (variant == nullptr) {
    return false;
  }
  out = plain_tokens(model, strategy, low, high);
  out.mean = std::max(1.0, out.mean * std::exp(variant->log_ratio));
  out.log_error = std::hypot(out.log_error, variant->log_error);
  out.other_tree = true;
  return true;
}

// Tokens a step, and how sure their mean is on the texts that were measured.
AcceptedTokens mean_tokens(const AcceptanceModel& model, const Strategy& strategy,
                           std::int64_t context_low, std::int64_t context_high) {
  AcceptedTokens out;
  if (measured_in(strategy.order, model, strategy, context_low, context_high, out)) {
    return out;
  }
  const std::int64_t group = approximate_group(strategy);
  if (group > 1 &&
      measured_in(other(strategy.order), model, strategy, context_low, context_high, out)) {
    out.source = Provenance::kPredicted;
    out.log_error = std::hypot(out.log_error, kOrderLogError);
    out.other_order = true;
    return out;
  }
  // Evidence of the nearest kind: the same blocks reused, then none reused, without sharing.
  if (group > 1 && measured_mean(model, strategy, strategy.order, strategy.schedule, 1, context_low,
                                 context_high, out)) {
    out.source = Provenance::kPredicted;
  } else {
    out = plain_tokens(model, strategy, context_low, context_high);
    out.other_schedule = strategy.schedule != kAllRefresh;
  }
  out.other_group = group > 1;
  return out;
}

double slope_to_first(double mean, AcceptanceModel::Positional model, const DraftChoice& draft) {
  constexpr double kDifference = 1e-4;
  model.first -= kDifference;
  return std::log(mean / positional_accepted(model, draft)) / kDifference;
}

// Texts' rates of best children differ, and a tuple's tokens follow them.
void add_texts(const AcceptanceModel& model, const DraftChoice& draft,
               const AcceptanceModel::Positional* range, AcceptedTokens& out) {
  const TextSpread& texts = model.texts;
  if (range == nullptr || texts.rate == 0.0) {
    return;
  }
  const double slope = slope_to_first(positional_accepted(*range, draft), *range, draft);
  const double factor = texts.evidence == TextEvidence::kLaw ? 1.0 : few_texts_factor(texts.texts);
  out.text_log_error = factor * slope * texts.rate;
  if (texts.texts > 0) {
    const double of_mean =
        out.text_log_error * out.text_log_error / static_cast<double>(texts.texts);
    const double known = out.source == Provenance::kPredicted ? 0.0 : out.log_error;
    out.few_texts_log_error = std::sqrt(std::max(0.0, of_mean - known * known));
  }
}

}  // namespace

const char* name_of(AcceptanceOrigin origin) {
  switch (origin) {
    case AcceptanceOrigin::kMeasured:
      return "measured";
    case AcceptanceOrigin::kImported:
      return "imported";
    case AcceptanceOrigin::kAssumed:
      return "assumed";
  }
  return "";
}

std::int64_t approximate_group(const Strategy& strategy) {
  return strategy.group_mode == GroupMode::kApprox ? strategy.group_size : 1;
}

bool in_range(std::int64_t context_len, std::int64_t low, std::int64_t high) {
  return (context_len > low || (low == 0 && context_len == 0)) && context_len <= high;
}

double positional_accepted(const AcceptanceModel::Positional& model, const DraftChoice& draft) {
  if (!draft.speculates()) {
    return 1.0;
  }
  const std::size_t width = static_cast<std::size_t>(draft.width);
  std::vector<double> parents = {1.0};
  std::vector<double> pool;
  std::vector<double> level;
  for (std::int64_t depth = 1; depth <= draft.depth; ++depth) {
    const std::vector<double> children = child_probabilities(model, depth, draft.width);
    level.clear();
    for (const double parent : parents) {
      for (const double child : children) {
        level.push_back(parent * child);
      }
    }
    pool.insert(pool.end(), level.begin(), level.end());
    const std::size_t kept = std::min(width, level.size());
    std::partial_sort(level.begin(), level.begin() + static_cast<std::ptrdiff_t>(kept), level.end(),
                      std::greater<>());
    level.resize(kept);
    parents = level;
  }
  const std::size_t taken = std::min(pool.size(), static_cast<std::size_t>(draft.nodes - 1));
  std::partial_sort(pool.begin(), pool.begin() + static_cast<std::ptrdiff_t>(taken), pool.end(),
                    std::greater<>());
  double accepted = 1.0;  // the bonus token
  for (std::size_t i = 0; i < taken; ++i) {
    accepted += pool[i];
  }
  return accepted;
}

double positional_log_error(const AcceptanceModel::Positional& model, const DraftChoice& draft) {
  return log_error_about(positional_accepted(model, draft), model, draft);
}

AcceptedTokens accepted_tokens(const AcceptanceModel& model, const Strategy& strategy,
                               std::int64_t context_low, std::int64_t context_high) {
  AcceptedTokens out;
  if (!strategy.draft.speculates()) {
    out.source = Provenance::kMeasured;  // one token a step, by definition
    return out;
  }
  if (strategy.adapts_length) {
    return adapted_tokens(model, strategy, context_low, context_high);
  }
  out = mean_tokens(model, strategy, context_low, context_high);
  add_texts(model, strategy.draft, nearest(model, context_low, context_high), out);
  return out;
}

double log_tokens_per_rate(const AcceptanceModel::Positional& model, const DraftChoice& draft) {
  return slope_to_first(positional_accepted(model, draft), model, draft);
}

double accepted_overlap(const AcceptanceModel& model, std::int64_t context_low,
                        std::int64_t context_high) {
  const AcceptanceModel::Positional* range = nearest(model, context_low, context_high);
  VERSIEVE_ASSERT(range != nullptr, "the planner asks only a model with evidence");
  return range->overlap;
}

AcceptedSharing accepted_sharing(const AcceptanceModel& model, Traversal order,
                                 std::int64_t context_low, std::int64_t context_high) {
  const AcceptanceModel::Positional* range = nearest(model, context_low, context_high);
  VERSIEVE_ASSERT(range != nullptr, "the planner asks only a model with evidence");
  const AcceptanceModel::OrderSharing& own = range->orders[static_cast<std::size_t>(order)];
  if (own.measured) {
    return {.order = own};
  }
  const AcceptanceModel::OrderSharing& others =
      range->orders[static_cast<std::size_t>(other(order))];
  if (others.measured) {
    return {.order = others, .other_order = true};
  }
  // A guess says nothing of orders.
  return {.order = {.overlap = range->overlap}, .other_order = order == Traversal::kDfs};
}

bool knows_order(const AcceptanceModel& model, Traversal order) {
  return std::any_of(model.positional.begin(), model.positional.end(),
                     [order](const AcceptanceModel::Positional& p) {
                       return p.orders[static_cast<std::size_t>(order)].measured;
                     });
}

}  // namespace versieve
