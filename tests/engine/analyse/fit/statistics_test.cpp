// Quantiles and conformal quantiles against values worked out by hand.
#include "engine/analyse/fit/statistics.h"

#include <catch2/catch.hpp>

using namespace versieve;
using namespace versieve::engine;

TEST_CASE("quantiles interpolate and an empty sample has none") {
  CHECK(!median({}));
  CHECK(*median({3.0, 1.0, 2.0}) == 2.0);
  CHECK(*median({4.0, 1.0, 2.0, 3.0}) == 2.5);
  CHECK(*quantile({0.0, 10.0}, 0.9) == Approx(9.0));
}

TEST_CASE("a conformal quantile is the (n+1) level-th smallest") {
  CHECK(!conformal_quantile({}, 0.9));
  CHECK(*conformal_quantile({1, 2, 3, 4, 5, 6, 7, 8, 9}, 0.9) == 9.0);  // ceil(9.0)
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) {
    hundred.push_back(i);
  }
  CHECK(*conformal_quantile(hundred, 0.9) == 91.0);    // ceil(90.9)
  CHECK(*conformal_quantile({5.0, 7.0}, 0.9) == 7.0);  // too few: the greatest
}
