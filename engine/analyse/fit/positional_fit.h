// The positional model of acceptance (model/cost/acceptance.h) fitted to the means of measured
// tuples.
#pragma once

#include <array>
#include <vector>

#include "model/cost/acceptance.h"

namespace versieve::engine {

using Tuples = std::vector<const AcceptanceModel::Measured*>;

inline constexpr double kLeastLogError = 0.02;  // no model of acceptance is better than this

// How far the parameters may lie from the prior's.
struct PriorSpread {
  double first = 0.3, siblings = 0.6, decay = 0.2;
};

// First, siblings and decay to the tuples' means, near `prior`; log_error is what is left, on the
// log scale. REQUIRES: at least one tuple, means > 0.
AcceptanceModel::Positional fit_positional(const Tuples& tuples,
                                           const AcceptanceModel::Positional& prior,
                                           const PriorSpread& spread = {});

// What the tuples leave open of the three around `model`, each mean as uncertain as its steps and
// the form make it: (J' W J + 1 / spread^2)^-1, by rows.
std::array<double, 9> covariance_of(const Tuples& tuples, const AcceptanceModel::Positional& model,
                                    const PriorSpread& spread);

}  // namespace versieve::engine
