// Do 90 % intervals hold what they say? Judged on every point, each predicted by a fit that had not
// seen it, its interval taken from the errors of other folds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/analyse/fit/validation.h"

namespace versieve::engine {

inline constexpr std::size_t kEnoughForRange = 20;  // points a range needs to speak for itself

struct CoverageRow {
  std::string context;  // "0-4096"; "pooled: 0-4096, 4096-8192" for ranges of too few points
  std::int64_t points = 0;
  double covered = 0.0;  // share
};

struct CoverageTable {
  std::vector<CoverageRow> rows;  // ranges with enough points, then one for all others
  std::optional<double> all;
};

// `folds` are the training points by fold, `held_out` what a fit to all of them says of the rest.
// A range's interval is the conformal quantile of other folds' errors in it, of all of theirs where
// they are fewer than kEnoughForRange.
CoverageTable coverage_by_range(const std::vector<Unseen>& folds,
                                const std::vector<Unseen>& held_out);

}  // namespace versieve::engine
