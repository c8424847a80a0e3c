// Intervals against numbers worked out by hand and against what they promise.
#include "engine/run/quality/intervals.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace versieve::engine {

TEST_CASE("a share's interval is Wilson's") {
  const Interval eight = share_interval(8, 10);
  CHECK(eight.low == Approx(0.490162).epsilon(1e-5));
  CHECK(eight.high == Approx(0.943318).epsilon(1e-5));
  const Interval none = share_interval(0, 10);
  CHECK(none.low == 0.0);
  CHECK(none.high == Approx(0.277533).epsilon(1e-5));
  CHECK(share_interval(10, 10).low == Approx(1.0 - none.high));
}

TEST_CASE("a change of answers has an interval even where none changed") {
  const Interval change = change_interval(3, 1, 20);
  CHECK(change.low == Approx(-0.104644).epsilon(1e-4));
  CHECK(change.high == Approx(0.286462).epsilon(1e-4));
  const Interval same = change_interval(0, 0, 100);
  CHECK(same.low == Approx(-same.high));
  CHECK(same.high > 0.015);
  CHECK(same.high < 0.025);
}

TEST_CASE("a mean's interval holds the truth as often as it says, and is the same each time") {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> law(1.0);
  int held = 0;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Stretch> stretches;
    for (int i = 0; i < 60; ++i) {
      const double level = law(random);  // of all tokens of the stretch
      stretches.push_back({.sum = 32.0 * level, .tokens = 32.0});
    }
    const Interval interval = mean_interval(stretches);
    held += interval.low <= 1.0 && 1.0 <= interval.high ? 1 : 0;
    CHECK(mean_interval(stretches).low == interval.low);
  }
  CHECK(held >= kRounds * 88 / 100);
  CHECK(held < kRounds);
}

TEST_CASE("one stretch says nothing about how far its mean may be off") {
  const std::vector<Stretch> one = {{.sum = 6.0, .tokens = 4.0}};
  CHECK(mean_interval(one).low == 1.5);
  CHECK(mean_interval(one).high == 1.5);
}

}  // namespace versieve::engine
