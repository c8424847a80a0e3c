// Pearson's test of counted draws against the law that they should have.
#pragma once

#include <cstdint>
#include <vector>

namespace versieve::engine {

// P(a chi-square variable of so many degrees of freedom is at least `statistic`): the regularised
// upper incomplete gamma function (Abramowitz and Stegun, Handbook of Mathematical Functions,
// 26.4.19, 6.5.29, 6.5.31).
double chi_square_tail(double statistic, double degrees);

struct ChiSquare {
  double statistic = 0.0;
  std::int64_t cells = 0;  // each of at least kLeastExpected draws; those too rare are joined
  double p_value = 1.0;    // 1 where fewer than two cells are left

  bool is_test() const { return cells >= 2; }
};
inline constexpr double kLeastExpected = 5.0;  // a cell's draws, below which the law is no longer
                                               // that of chi-square (Cochran's rule)

// `counts` and `expected` of the same outcomes, in an order of which neighbours may be joined.
// Cells of differing trials, whose expected counts are sums, make the test conservative.
ChiSquare chi_square(const std::vector<std::int64_t>& counts, const std::vector<double>& expected);

}  // namespace versieve::engine
