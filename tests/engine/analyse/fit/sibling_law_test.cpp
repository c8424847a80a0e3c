// How siblings help: the law that ships is that of the pairs that ship, and holds on their unseen
// texts.
#include "engine/analyse/fit/sibling_law.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/fit/positional_fit.h"
#include "tests/support/shipped_points.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

std::vector<PointMeasurement> shipped_acceptance() {
  std::vector<PointMeasurement> points = test::shipped_points("h100.db", "H100");
  const std::vector<PointMeasurement>& more = test::shipped_points("h200.db", "H200");
  points.insert(points.end(), more.begin(), more.end());
  std::erase_if(points, [](const PointMeasurement& m) { return !m.acceptance; });
  return points;
}

std::vector<PointMeasurement> named(const char* pair, double first, double siblings) {
  std::vector<PointMeasurement> points = synthetic::acceptance_points(first, siblings, 1.0);
  for (PointMeasurement& m : points) {
    m.key.model = pair;
  }
  return points;
}

}  // namespace

TEST_CASE("planted pairs give back their mean and how far they lie apart") {
  const SiblingLaw law =
      fit_sibling_law(synthetic::joined(named("a", 0.6, 0.4), named("b", 0.85, 0.8)));
  CHECK(law.pairs == 2);
  CHECK(law.siblings == Approx(0.6).margin(0.02));
  CHECK(law.between_pairs == Approx(0.4 / std::sqrt(2.0)).margin(0.02));
  CHECK(law.least_rate == Approx(0.6).margin(0.01));
  CHECK(law.most_rate == Approx(0.85).margin(0.01));
  CHECK(distance_from_law(law) > law.between_pairs);
}

TEST_CASE("chains alone say nothing of siblings") {
  std::vector<PointMeasurement> chains = named("a", 0.6, 0.4);
  std::erase_if(chains, [](const PointMeasurement& m) {
    return Strategy::parse(m.key.strategy).draft.width > 1;
  });
  CHECK(fit_sibling_law(chains).pairs == 0);
  CHECK(fit_sibling_law({}).pairs == 0);
}

TEST_CASE("the constants of the law are what the shipped points say") {
  const SiblingLaw law = fit_sibling_law(shipped_acceptance());
  CHECK(law.pairs == kSiblingLaw.pairs);
  CHECK(law.siblings == Approx(kSiblingLaw.siblings).margin(0.005));
  CHECK(law.between_pairs == Approx(kSiblingLaw.between_pairs).margin(0.005));
  CHECK(law.least_rate == Approx(kSiblingLaw.least_rate).margin(0.01));
  CHECK(law.most_rate == Approx(kSiblingLaw.most_rate).margin(0.01));
}

// Each regime and context of the test split: a chain of seven alone is known, its trees are judged.
TEST_CASE("the law predicts the trees of unseen texts from their chains, within its interval") {
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::vector<PointMeasurement>>
      groups;
  for (const PointMeasurement& m : shipped_acceptance()) {
    const Strategy s = Strategy::parse(m.key.strategy);
    if (m.key.split == "test" && s.draft.speculates() && s.schedule == "F*" &&
        approximate_group(s) == 1) {
      groups[{m.key.pair, m.key.regime, m.key.context_len}].push_back(m);
    }
  }
  double trees = 0.0, held = 0.0, squares = 0.0;
  for (const auto& [key, points] : groups) {
    const std::vector<AcceptanceModel::Measured> tuples =
        acceptance_evidence(points, acceptance_pairs(points).at(0)).tuples;
    const auto chain = std::find_if(tuples.begin(), tuples.end(),
                                    [](const auto& m) { return m.draft.width == 1; });
    if (chain == tuples.end()) {
      continue;
    }
    AcceptanceModel::Positional prior;
    prior.siblings = kSiblingLaw.siblings;
    AcceptanceModel::Positional model =
        fit_positional({&*chain}, prior, {.siblings = 1e-4, .decay = 0.05});
    model.covariance[4] = std::pow(distance_from_law(kSiblingLaw), 2);
    for (const AcceptanceModel::Measured& m : tuples) {
      if (m.draft.width > 1) {
        const double miss = std::log(positional_accepted(model, m.draft) / m.mean);
        const double steps =
            std::hypot(m.standard_error / m.mean, chain->standard_error / chain->mean);
        const double error = std::hypot(positional_log_error(model, m.draft), steps);
        held += std::abs(miss) < 1.645 * error ? 1.0 : 0.0;
        squares += miss * miss;
        trees += 1.0;
      }
    }
  }
  CAPTURE(trees, held / trees, std::sqrt(squares / trees));
  CHECK(trees > 40.0);
  CHECK(held / trees >= 0.85);
  CHECK(std::sqrt(squares / trees) < 0.12);
}
