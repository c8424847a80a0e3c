#include "engine/fit/statistics.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"

namespace versieve::engine {

std::optional<double> quantile(std::vector<double> sample, double probability) {
  if (sample.empty()) {
    return {};
  }
  std::sort(sample.begin(), sample.end());
  const double at = probability * static_cast<double>(sample.size() - 1);
  const std::size_t below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sample.size() - 1);
  return sample[below] + (at - static_cast<double>(below)) * (sample[above] - sample[below]);
}

std::optional<double> median(const std::vector<double>& sample) {
  return quantile(sample, 0.5);
}

std::optional<double> conformal_quantile(std::vector<double> sample, double level) {
  if (sample.empty()) {
    return {};
  }
  std::sort(sample.begin(), sample.end());
  const double rank = std::ceil(static_cast<double>(sample.size() + 1) * level);
  const std::size_t index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sample[std::min(index, sample.size() - 1)];
}

std::optional<double> kendall_tau(const std::vector<double>& a, const std::vector<double>& b) {
  VERSIEVE_ASSERT(a.size() == b.size(), "two rankings of the same things");
  double agreement = 0.0;
  double pairs_a = 0.0;  // not tied in a
  double pairs_b = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = i + 1; j < a.size(); ++j) {
      const double da = a[i] - a[j];
      const double db = b[i] - b[j];
      pairs_a += da != 0.0 ? 1.0 : 0.0;
      pairs_b += db != 0.0 ? 1.0 : 0.0;
      agreement += da * db > 0.0 ? 1.0 : (da * db < 0.0 ? -1.0 : 0.0);
    }
  }
  if (pairs_a == 0.0 || pairs_b == 0.0) {
    return {};
  }
  return agreement / std::sqrt(pairs_a * pairs_b);
}

}  // namespace versieve::engine
