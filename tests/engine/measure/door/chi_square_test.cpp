// Pearson's test: its tail against the tables, and what it does with cells too rare for it.
#include "engine/measure/door/chi_square.h"

#include <catch2/catch.hpp>

using namespace versieve::engine;

TEST_CASE("the tail of chi-square is that of the tables") {
  struct Row {
    double statistic, degrees, tail;
  };
  // Abramowitz and Stegun, table 26.8, and R's pchisq for the large ones.
  const Row rows[] = {{3.841459, 1, 0.05},    {6.634897, 1, 0.01},   {18.30704, 10, 0.05},
                      {29.58830, 10, 0.001},  {124.3421, 100, 0.05}, {70.06489, 100, 0.99},
                      {10233.75, 10000, 0.05}};
  for (const Row& row : rows) {
    CAPTURE(row.statistic, row.degrees);
    CHECK(chi_square_tail(row.statistic, row.degrees) == Approx(row.tail).epsilon(2e-4));
  }
  CHECK(chi_square_tail(0.0, 3.0) == 1.0);
  CHECK(chi_square_tail(INFINITY, 3.0) == 0.0);
  CHECK(chi_square_tail(1e5, 3.0) < 1e-300);
}

TEST_CASE("rare outcomes are joined with their neighbours and none is lost") {
  const ChiSquare joined = chi_square({10, 3, 2, 1, 0}, {10.0, 2.0, 2.0, 1.5, 0.5});
  CHECK(joined.cells == 2);  // {10}, {2 + 2 + 1.5} and the rest with it
  CHECK(joined.statistic == Approx(0.0));
  CHECK(!chi_square({3, 1}, {2.0, 2.0}).is_test());
  CHECK(chi_square({3, 1}, {2.0, 2.0}).p_value == 1.0);
  CHECK(chi_square({90, 10}, {50.0, 50.0}).p_value < 1e-12);
}
