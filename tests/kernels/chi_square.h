// Pearson's chi-square of counts against a law, as a normal deviate, so that one bound serves any
// number of cells.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace versieve::test {

// Wilson and Hilferty's deviate of the statistic: about standard normal if the law is right. Cells
// with fewer than 5 expected counts are joined.
inline double chi_square_deviate(const std::vector<std::int64_t>& counts,
                                 const std::vector<double>& law) {
  double total = 0.0;
  for (const std::int64_t count : counts) {
    total += static_cast<double>(count);
  }
  double statistic = 0.0, cells = 0.0, rare_count = 0.0, rare_expected = 0.0;
  for (std::size_t x = 0; x < law.size(); ++x) {
    const double expected = law[x] * total;
    const double count = static_cast<double>(counts[x]);
    if (expected < 5.0) {
      rare_count += count;
      rare_expected += expected;
    } else {
      statistic += (count - expected) * (count - expected) / expected;
      cells += 1.0;
    }
  }
  if (rare_count > 0.0 || rare_expected > 0.0) {
    const double difference = rare_count - rare_expected;
    statistic += difference * difference / std::max(rare_expected, 1e-9);
    cells += 1.0;
  }
  const double freedom = std::max(1.0, cells - 1.0);
  return (std::cbrt(statistic / freedom) - (1.0 - 2.0 / (9.0 * freedom))) /
         std::sqrt(2.0 / (9.0 * freedom));
}

}  // namespace versieve::test
