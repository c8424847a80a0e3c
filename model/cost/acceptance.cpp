#include "model/cost/acceptance.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "model/cost/accepted_tokens.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

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
  constexpr double kDifference = 1e-4;
  const std::array<double, 9>& c = model.covariance;
  if (std::all_of(c.begin(), c.end(), [](double value) { return value == 0.0; })) {
    return model.log_error;
  }
  const double mean = positional_accepted(model, draft);
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

double log_tokens_per_rate(const AcceptanceModel::Positional& model, const DraftChoice& draft) {
  constexpr double kDifference = 1e-4;
  AcceptanceModel::Positional moved = model;
  moved.first -= kDifference;
  return std::log(positional_accepted(model, draft) / positional_accepted(moved, draft)) /
         kDifference;
}

double accepted_overlap(const AcceptanceModel& model, std::int64_t context_low,
                        std::int64_t context_high) {
  const AcceptanceModel::Positional* range = nearest_range(model, context_low, context_high);
  VERSIEVE_ASSERT(range != nullptr, "the planner asks only a model with evidence");
  return range->overlap;
}

AcceptedSharing accepted_sharing(const AcceptanceModel& model, Traversal order,
                                 std::int64_t context_low, std::int64_t context_high) {
  const AcceptanceModel::Positional* range = nearest_range(model, context_low, context_high);
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
