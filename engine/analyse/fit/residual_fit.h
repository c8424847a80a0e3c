// A residual field from the residuals of measured points: kernel ridge regression, a family at a
// time, its length and its noise chosen by leave-one-out errors in closed form.
#pragma once

#include <cstddef>
#include <vector>

#include "model/cost/residual_field.h"

namespace versieve::engine {

struct Residual {
  Regime regime;
  double log_ratio = 0.0;  // of measured to predicted
};

inline constexpr std::size_t kFewestOfFamily = 6;

// Deterministic, whatever the number of threads. A family of fewer than `fewest` points is left
// out: it would say nothing that its points do not. REQUIRES: fewest >= 2.
ResidualField fit_residual_field(const std::vector<Residual>& residuals,
                                 std::size_t fewest = kFewestOfFamily, int threads = 1);
// The sum of both.
void append(ResidualField further, ResidualField& field);

}  // namespace versieve::engine
