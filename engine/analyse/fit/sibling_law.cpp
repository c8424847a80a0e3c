#include "engine/analyse/fit/sibling_law.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/fit/positional_fit.h"

namespace versieve::engine {
namespace {

constexpr double kHeld = 1e-4;  // `siblings` stays where the search put it
constexpr int kHalvings = 20;   // of the search, to 1e-4

// The tuples of one regime at one context; their best child's rate and its decay are their own.
using Group = std::vector<AcceptanceModel::Measured>;

bool is_plain(const AcceptanceModel::Measured& m) {
  return m.schedule == "F*" && m.approximate_group == 1 && !m.at_least;
}

bool says_something(const Group& group) {
  const std::int64_t chains =
      std::count_if(group.begin(), group.end(), [](const auto& m) { return m.draft.width == 1; });
  return chains >= 1 && static_cast<std::int64_t>(group.size()) - chains >= 2;
}

std::vector<Group> groups_of(const std::vector<PointMeasurement>& measured,
                             const AcceptancePair& pair) {
  std::map<std::string, std::vector<PointMeasurement>> regimes;
  for (const PointMeasurement& m : measured) {
    if (is_of(m, pair)) {
      regimes[m.key.regime].push_back(m);
    }
  }
  std::vector<Group> out;
  for (const auto& [regime, points] : regimes) {
    std::map<std::int64_t, Group> contexts;
    for (const AcceptanceModel::Measured& m : acceptance_evidence(points, pair).tuples) {
      if (is_plain(m)) {
        contexts[m.context_len].push_back(m);
      }
    }
    for (auto& [context, group] : contexts) {
      if (says_something(group)) {
        out.push_back(std::move(group));
      }
    }
  }
  return out;
}

AcceptanceModel::Positional fit_group(const Group& group, double siblings) {
  Tuples tuples;
  for (const AcceptanceModel::Measured& m : group) {
    tuples.push_back(&m);
  }
  AcceptanceModel::Positional prior;
  prior.siblings = siblings;
  return fit_positional(tuples, prior, {.siblings = kHeld, .decay = 0.05});
}

// Squared misses of the logarithms of all means.
double misses_of(const std::vector<Group>& groups, double siblings) {
  double sum = 0.0;
  for (const Group& group : groups) {
    const AcceptanceModel::Positional model = fit_group(group, siblings);
    for (const AcceptanceModel::Measured& m : group) {
      const double miss = std::log(positional_accepted(model, m.draft) / m.mean);
      sum += miss * miss;
    }
  }
  return sum;
}

// Golden section between none and kMostSiblings.
double siblings_of(const std::vector<Group>& groups) {
  const double golden = 0.5 * (std::sqrt(5.0) - 1.0);
  double low = 0.0;
  double high = kMostSiblings;
  double left = high - golden * (high - low);
  double right = low + golden * (high - low);
  double at_left = misses_of(groups, left);
  double at_right = misses_of(groups, right);
  for (int i = 0; i < kHalvings; ++i) {
    if (at_left < at_right) {
      high = right;
      right = left;
      at_right = at_left;
      left = high - golden * (high - low);
      at_left = misses_of(groups, left);
    } else {
      low = left;
      left = right;
      at_left = at_right;
      right = low + golden * (high - low);
      at_right = misses_of(groups, right);
    }
  }
  return 0.5 * (low + high);
}

}  // namespace

double distance_from_law(const SiblingLaw& law) {
  return law.between_pairs * std::sqrt(1.0 + 1.0 / static_cast<double>(law.pairs));
}

double distance_between_pairs(const SiblingLaw& law) {
  return law.between_pairs * std::sqrt(2.0);
}

SiblingLaw fit_sibling_law(const std::vector<PointMeasurement>& measured) {
  SiblingLaw law{.least_rate = 1.0};
  double sum = 0.0;
  double squares = 0.0;
  for (const AcceptancePair& pair : acceptance_pairs(measured)) {
    const std::vector<Group> groups = groups_of(measured, pair);
    if (pair.origin != AcceptanceOrigin::kMeasured || groups.empty()) {
      continue;
    }
    const double siblings = siblings_of(groups);
    sum += siblings;
    squares += siblings * siblings;
    law.pairs += 1;
    for (const Group& group : groups) {
      const double rate = fit_group(group, siblings).first;
      law.least_rate = std::min(law.least_rate, rate);
      law.most_rate = std::max(law.most_rate, rate);
    }
  }
  if (law.pairs > 0) {
    law.siblings = sum / static_cast<double>(law.pairs);
  }
  if (law.pairs > 1) {
    const double variance = std::max(0.0, squares - sum * law.siblings);
    law.between_pairs = std::sqrt(variance / static_cast<double>(law.pairs - 1));
  }
  return law;
}

}  // namespace versieve::engine
