// How much more children of a node help a pair of which no tree was measured: `siblings` of
// AcceptanceModel::Positional, fitted to the pairs whose trees were.
#pragma once

#include <cstdint>
#include <vector>

#include "model/cost/acceptance.h"
#include "model/words/measurement.h"

namespace versieve::engine {

struct SiblingLaw {
  double siblings = 0.0;       // mean over pairs
  double between_pairs = 0.0;  // standard deviation from pair to pair
  std::int64_t pairs = 0;
  double least_rate = 0.0, most_rate = 0.0;  // of best children, that it was fitted at
};

// Of the two pairs that ship (calibration split in db/measured/h100.db and h200.db), as
// fit_sibling_law finds it: tests/engine/analyse/fit/sibling_law_test.cpp fits it again.
inline constexpr SiblingLaw kSiblingLaw{
    .siblings = 0.583, .between_pairs = 0.251, .pairs = 2, .least_rate = 0.792, .most_rate = 0.998};

// How far a pair may lie from the law's mean, and from one of the law's pairs (standard
// deviations).
double distance_from_law(const SiblingLaw& law);
double distance_between_pairs(const SiblingLaw& law);

// Each measured pair by itself, the best child's rate of each regime and context its own. Pairs
// without a chain and two trees of one regime at one context say nothing.
SiblingLaw fit_sibling_law(const std::vector<PointMeasurement>& measured);

}  // namespace versieve::engine
