// Order statistics and rank agreement of small samples. Quantiles are those of the sorted sample,
// interpolated; an empty sample gives no value, never zero.
#pragma once

#include <optional>
#include <vector>

namespace versieve::engine {

std::optional<double> quantile(std::vector<double> sample, double probability);
std::optional<double> median(const std::vector<double>& sample);
// The smallest q so that a fresh draw stays under it with probability >= `level`: the
// ceil((n + 1) level)-th smallest (split conformal); the greatest when the sample is too small.
std::optional<double> conformal_quantile(std::vector<double> sample, double level);

}  // namespace versieve::engine
