// Texts of a known spread: a plan's interval for so many requests holds what other texts yield in
// 85 to 95 % of trials. What was fitted from the steps alone does not.
#include "engine/analyse/fit/text_spread_fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "engine/analyse/fit/acceptance_fit.h"
#include "model/plan/request_intervals.h"
#include "model/words/normal_law.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr std::int64_t kTokens = 128;  // of a request
constexpr std::int64_t kDepths[] = {3, 5, 7};

// One request by a chain whose tokens are right with the text's own rate.
TextYield request(double rate, std::int64_t depth, const std::string& name, std::mt19937_64& rng) {
  std::bernoulli_distribution is_right(rate);
  TextYield out{.text = name};
  while (out.tokens < kTokens) {
    std::int64_t yield = 1;
    while (yield <= depth && is_right(rng)) {
      ++yield;
    }
    out.tokens += yield;
    out.steps += 1;
  }
  return out;
}

std::vector<double> rates_of(std::int64_t texts, double spread, std::mt19937_64& rng) {
  std::normal_distribution<double> rate(0.7, spread);
  std::vector<double> out;
  for (std::int64_t i = 0; i < texts; ++i) {
    out.push_back(std::clamp(rate(rng), 0.02, 0.98));
  }
  return out;
}

PointMeasurement point_of(const std::vector<double>& rates, std::int64_t depth,
                          std::mt19937_64& rng) {
  PointMeasurement m = synthetic::acceptance_points(0.7, 0.5, 1.0).front();
  Strategy chain = Strategy::parse("nsa/d1k1n2/bfs/c1/F*");
  chain.draft = {depth, 1, depth + 1};
  m.key.strategy = chain.text();
  AcceptanceMeasurement a;
  a.accepted_histogram.resize(static_cast<std::size_t>(depth) + 2);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    a.texts.push_back(request(rates[i], depth, std::to_string(i) + ".txt@0", rng));
    a.steps += a.texts.back().steps;
    tokens += a.texts.back().tokens;
  }
  a.accepted_per_step = static_cast<double>(tokens) / static_cast<double>(a.steps);
  // As wide as one rate's steps are, which is all that a mean of steps knows.
  std::geometric_distribution<std::int64_t> wrong(0.3);
  for (std::int64_t step = 0; step < a.steps; ++step) {
    a.accepted_histogram[static_cast<std::size_t>(std::min(wrong(rng), depth)) + 1] += 1;
  }
  m.acceptance = a;
  return m;
}

struct Covered {
  double texts = 0.0, steps = 0.0;  // share of trials: by texts, and as it was before
  double width = 0.0;               // mean half width of the first
};

Covered covered(double spread, std::int64_t measured, std::int64_t played, int trials) {
  std::mt19937_64 rng(20261127);
  Covered out;
  for (int trial = 0; trial < trials; ++trial) {
    const std::vector<double> calibration = rates_of(measured, spread, rng);
    std::vector<PointMeasurement> points;
    for (const std::int64_t depth : kDepths) {
      points.push_back(point_of(calibration, depth, rng));
    }
    const std::vector<double> requests = rates_of(played, spread, rng);
    const PointMeasurement live = point_of(requests, 7, rng);
    const Strategy chain = Strategy::parse("nsa/d7k1n8/bfs/c1/F*");
    const AcceptedTokens told = accepted_tokens(fit_acceptance(points), chain, 0, 4096);
    Evaluation e{.strategy = chain,
                 .cost = StepCost{.time_us = 1.0},
                 .expected_accepted = told.mean,
                 .throughput = told.mean};
    add_intervals(told, {}, played, e);
    const double yield = live.acceptance->accepted_per_step;
    const auto holds = [yield](const Interval& i) { return yield >= i.low && yield <= i.high; };
    out.texts += holds(e.throughput_interval) ? 1.0 / trials : 0.0;
    out.steps += holds(e.same_texts_interval) ? 1.0 / trials : 0.0;
    out.width += 0.5 * std::log(e.throughput_interval.high / e.throughput_interval.low) / trials;
  }
  return out;
}

}  // namespace

TEST_CASE("intervals hold what other texts of a known spread yield, steps alone do not") {
  for (const auto& [measured, played] :
       {std::pair{32, 16}, std::pair{16, 16}, std::pair{8, 4}, std::pair{32, 1}}) {
    const Covered c = covered(0.09, measured, played, 300);
    CAPTURE(measured, played, c.texts, c.steps, c.width);
    CHECK(c.texts >= 0.85);
    CHECK(c.texts <= 0.96);
    CHECK(c.steps < 0.7);
  }
}

TEST_CASE("texts that do not differ get an interval of their steps' own luck") {
  const Covered alike = covered(0.0, 32, 16, 300);
  CAPTURE(alike.texts, alike.width);
  CHECK(alike.texts >= 0.85);
  // One request's steps are about 40, whose mean is off by 0.1 of itself.
  CHECK(alike.width < 0.5 * covered(0.09, 32, 16, 100).width);
}

TEST_CASE(
    "the spread of the rate is found again, from decoded texts before walks, else the law's") {
  std::mt19937_64 rng(7);
  std::vector<PointMeasurement> points;
  const std::vector<double> rates = rates_of(400, 0.09, rng);
  for (const std::int64_t depth : kDepths) {
    points.push_back(point_of(rates, depth, rng));
  }
  const AcceptanceModel decoded = fit_acceptance(points);
  CHECK(decoded.texts.evidence == TextEvidence::kDecoded);
  CHECK(decoded.texts.texts == 400);
  CHECK(decoded.texts.rate > 0.08);
  CHECK(decoded.texts.rate < 0.12);  // with the luck of some 40 steps a text
  for (PointMeasurement& m : points) {
    for (const TextYield& text : m.acceptance->texts) {
      AcceptanceWalk walk{.text = text.text, .yields = {}};
      walk.yields.assign(static_cast<std::size_t>(text.steps), 1);
      walk.yields.front() += text.tokens - text.steps;
      m.acceptance->walks.push_back(walk);
    }
    m.acceptance->texts.clear();
  }
  const AcceptanceModel walked = fit_acceptance(points);
  CHECK(walked.texts.evidence == TextEvidence::kWalked);
  CHECK(walked.texts.rate == Approx(decoded.texts.rate).epsilon(0.05));
  for (PointMeasurement& m : points) {
    m.acceptance->walks.clear();
  }
  CHECK(fit_acceptance(points).texts.evidence == TextEvidence::kLaw);
  CHECK(fit_acceptance(points).texts.rate == kTextLaw.rate);
}

TEST_CASE("a tuple that was counted by text is known by those points, loops among them") {
  std::mt19937_64 rng(3);
  PointMeasurement older = point_of(rates_of(8, 0.0, rng), 7, rng);
  older.acceptance->texts.clear();
  older.acceptance->accepted_per_step = 2.0;
  PointMeasurement counted = point_of({0.7}, 7, rng);
  counted.acceptance->texts = {{"a@0", 20, 60, false}, {"b@0", 10, 80, true}};
  counted.acceptance->looping = false;
  PointMeasurement code = counted;
  code.key.regime = "another";
  code.acceptance->texts = {{"c@0", 70, 140, false}};
  const AcceptanceModel model = fit_acceptance({older, counted, code});
  REQUIRE(model.measured.size() == 1);
  // 140 tokens of each kind: in 30 and in 70 steps.
  CHECK(model.measured[0].mean == Approx(280.0 / 100.0));
}

TEST_CASE("an assumed rate holds for all texts, which still differ") {
  CHECK(assumed_text_spread(0.7).rate == kTextLaw.rate);
  CHECK(assumed_text_spread(0.0).rate == 0.0);
  CHECK(assumed_text_spread(1.0).rate == 0.0);
  CHECK(assumed_text_spread(0.7).texts == 0);
}
