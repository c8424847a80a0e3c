// The greedy search over schedules, with losses that are known.
#include "engine/run/calibrate/schedule_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

using namespace versieve::engine;

namespace {

// A loss that depends on the whole schedule: each letter's own cost, more after another R.
struct PlantedLoss {
  explicit PlantedLoss(std::uint64_t seed, std::size_t layers) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < layers; ++i) {
      cost.push_back(static_cast<double>(random() % 1000) / 1000.0);
      after.push_back(static_cast<double>(random() % 1000) / 500.0 - 0.5);
    }
  }
  double operator()(const std::string& schedule) {
    ++calls;
    double loss = 2.0;
    for (std::size_t i = 1; i < schedule.size(); ++i) {
      if (schedule[i] == 'R') {
        loss += cost[i] + (schedule[i - 1] == 'R' ? after[i] : 0.0);
      }
    }
    return loss;
  }
  std::vector<double> cost, after;
  std::int64_t calls = 0;
};

void check_curve(const ScheduleSearch& search, PlantedLoss loss, double budget) {
  REQUIRE(!search.curve.empty());
  const ScheduleStep& first = search.curve.front();
  CHECK(first.layer == -1);
  CHECK(first.schedule.find('R') == std::string::npos);
  CHECK(first.rise == 0.0);
  for (std::size_t i = 0; i < search.curve.size(); ++i) {
    const ScheduleStep& step = search.curve[i];
    CHECK(step.schedule[0] == 'F');
    CHECK(step.loss == loss(step.schedule));
    CHECK(step.rise == step.loss - first.loss);
    CHECK(step.rise <= budget);
    CHECK(std::count(step.schedule.begin(), step.schedule.end(), 'R') ==
          static_cast<std::int64_t>(i));
    for (const ScheduleCandidate& other : step.candidates) {
      CHECK(step.loss <= other.loss);  // the least harmful of all that were tried
    }
    CHECK(step.candidates.size() == (i == 0 ? 0 : step.schedule.size() - i));
  }
}

}  // namespace

TEST_CASE("the curve begins all-F, takes the least harmful layer each time and keeps the budget") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    for (const double budget : {0.0, 0.1, 0.7, 2.0, 1e9}) {
      const std::size_t layers = 1 + seed % 9;
      CAPTURE(seed, budget, layers);
      PlantedLoss loss(seed, layers);
      const ScheduleSearch search =
          search_schedule(static_cast<std::int64_t>(layers), budget, std::ref(loss));
      CHECK(loss.calls <= static_cast<std::int64_t>(layers * (layers - 1) / 2 + 1));
      check_curve(search, loss, budget);
      const std::string& found = search.schedule();
      const bool all =
          std::count(found.begin(), found.end(), 'R') + 1 == static_cast<std::int64_t>(layers);
      CHECK(search.refused.has_value() == !all);
      if (search.refused) {
        CHECK(search.refused->rise > budget);
        CHECK(search.refused->schedule[0] == 'F');
      }
    }
  }
}

TEST_CASE("a smaller budget gives a beginning of a larger one's curve") {
  PlantedLoss loss(7, 10);
  const ScheduleSearch whole = search_schedule(10, 1e9, std::ref(loss));
  const ScheduleSearch part = search_schedule(10, 0.8, std::ref(loss));
  REQUIRE(part.curve.size() < whole.curve.size());
  for (std::size_t i = 0; i < part.curve.size(); ++i) {
    CHECK(part.curve[i].schedule == whole.curve[i].schedule);
  }
  REQUIRE(part.refused);
  CHECK(part.refused->schedule == whole.curve[part.curve.size()].schedule);
}

TEST_CASE("a step within a budget is where the search with that budget ends") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    PlantedLoss loss(seed, 9);
    const ScheduleSearch whole = search_schedule(9, 5.0, std::ref(loss));
    for (const double budget : {0.0, 0.2, 0.9, 3.0, 5.0}) {
      CAPTURE(seed, budget);
      CHECK(step_within(whole, budget).schedule ==
            search_schedule(9, budget, std::ref(loss)).schedule());
    }
  }
}

TEST_CASE("few layers are tried a step: the first tries all, each takes the best that it tried") {
  PlantedLoss loss(3, 20), every(3, 20);
  const ScheduleSearch search = search_schedule(20, 1e9, std::ref(loss), 4);
  const ScheduleSearch whole = search_schedule(20, 1e9, std::ref(every));
  CHECK(search.curve[1].candidates.size() == 19);
  CHECK(search.curve[1].schedule == whole.curve[1].schedule);
  for (std::size_t i = 2; i < search.curve.size(); ++i) {
    CHECK(search.curve[i].candidates.size() == std::min<std::size_t>(4, 20 - i));
    for (const ScheduleCandidate& other : search.curve[i].candidates) {
      CHECK(search.curve[i].loss <= other.loss);
    }
  }
  CHECK(search.schedule() == "F" + std::string(19, 'R'));
  CHECK(loss.calls < every.calls / 2);
}

TEST_CASE("among equal losses the lower layer goes first, and one layer stays F") {
  const ScheduleLoss flat = [](const std::string&) { return 1.0; };
  const ScheduleSearch search = search_schedule(4, 0.0, flat);
  REQUIRE(search.curve.size() == 4);
  CHECK(search.curve[1].schedule == "FRFF");
  CHECK(search.curve[2].schedule == "FRRF");
  CHECK(search.schedule() == "FRRR");
  CHECK(!search.refused);
  CHECK(search_schedule(1, 0.5, flat).schedule() == "F");
}
