#include "engine/measure/door/chi_square.h"

#include <cmath>
#include <limits>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr int kMostTerms = 1'000'000;
constexpr double kPrecision = 1e-15;

// x^a e^-x / Gamma(a)
double front(double a, double x) {
  return std::exp(a * std::log(x) - x - std::lgamma(a));
}

double lower_by_series(double a, double x) {
  double term = 1.0 / a, sum = term;
  for (int n = 1; n < kMostTerms && term > kPrecision * sum; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * front(a, x);
}

// Lentz's evaluation of the continued fraction.
double upper_by_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1.0 - a, c = 1.0 / kTiny, d = 1.0 / b, value = d;
  for (int n = 1; n < kMostTerms; ++n) {
    const double an = -n * (n - a);
    b += 2.0;
    d = an * d + b;
    d = 1.0 / (std::fabs(d) < kTiny ? kTiny : d);
    c = b + an / c;
    c = std::fabs(c) < kTiny ? kTiny : c;
    const double step = d * c;
    value *= step;
    if (std::fabs(step - 1.0) < kPrecision) {
      break;
    }
  }
  return value * front(a, x);
}

}  // namespace

double chi_square_tail(double statistic, double degrees) {
  VERSIEVE_ASSERT(degrees > 0.0 && statistic >= 0.0, "a chi-square variable is not negative");
  if (statistic == 0.0) {
    return 1.0;
  }
  if (std::isinf(statistic)) {
    return 0.0;
  }
  const double a = 0.5 * degrees, x = 0.5 * statistic;
  return x < a + 1.0 ? 1.0 - lower_by_series(a, x) : upper_by_fraction(a, x);
}

ChiSquare chi_square(const std::vector<std::int64_t>& counts, const std::vector<double>& expected) {
  VERSIEVE_ASSERT(counts.size() == expected.size(), "a count for each expected one");
  struct Cell {
    double count = 0.0, expected = 0.0;
  };
  std::vector<Cell> cells;
  Cell open;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Cell own{static_cast<double>(counts[i]), expected[i]};
    if (own.expected >= kLeastExpected) {
      cells.push_back(own);
      continue;
    }
    open.count += own.count;
    open.expected += own.expected;
    if (open.expected >= kLeastExpected) {
      cells.push_back(open);
      open = {};
    }
  }
  if (!cells.empty()) {  // the rest joins the last cell
    cells.back().count += open.count;
    cells.back().expected += open.expected;
  }
  ChiSquare out{.cells = static_cast<std::int64_t>(cells.size())};
  for (const Cell& cell : cells) {
    const double off = cell.count - cell.expected;
    out.statistic += off * off / cell.expected;
  }
  if (out.is_test()) {
    out.p_value = chi_square_tail(out.statistic, static_cast<double>(out.cells - 1));
  }
  return out;
}

}  // namespace versieve::engine
