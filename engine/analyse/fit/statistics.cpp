#include "engine/analyse/fit/statistics.h"

#include <algorithm>
#include <cmath>

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

}  // namespace versieve::engine
