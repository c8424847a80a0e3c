// A chain whose length follows what is accepted: how often it drafts how much, what its steps yield
// and cost, against runs of the rule itself.
#include "model/cost/adapted_chain.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "model/plan/composed_step.h"
#include "model/plan/planner.h"
#include "model/words/chain_length.h"
#include "tests/support/planned.h"

using namespace versieve;
using synthetic::fitted_by_hand;

namespace {

constexpr std::int64_t kContext = 8192;

Strategy adapted(std::int64_t most) {
  return {.draft = chain_of(most), .adapts_length = true};
}

std::vector<double> lengths(const FittedModel& fit, std::int64_t most) {
  return adapted_lengths(fit.acceptance, adapted(most), kContext - 1, kContext);
}

double tokens(const FittedModel& fit, const Strategy& strategy) {
  return accepted_tokens(fit.acceptance, strategy, kContext - 1, kContext).mean;
}

}  // namespace

TEST_CASE("a chain that is always right drafts all, one that is never right a token") {
  const std::vector<double> sure = lengths(fitted_by_hand(1.0), 12);
  CHECK(sure.size() == 12);
  CHECK(sure.back() == Approx(1.0));
  CHECK(tokens(fitted_by_hand(1.0), adapted(12)) == Approx(13.0));
  const std::vector<double> never = lengths(fitted_by_hand(0.0), 12);
  CHECK(never.front() == Approx(1.0));
  CHECK(tokens(fitted_by_hand(0.0), adapted(12)) == Approx(1.0));
}

TEST_CASE("shares and tokens are those of the rule, run for long") {
  for (const double right : {0.5, 0.8, 0.95}) {
    const FittedModel fit = fitted_by_hand(right);
    std::mt19937_64 random(7);
    std::bernoulli_distribution stays(right);
    ChainLength length(10);
    std::vector<double> share(10, 0.0);
    double yielded = 0.0;
    constexpr int kSteps = 200000;
    for (int step = 0; step < kSteps; ++step) {
      share[static_cast<std::size_t>(length.length() - 1)] += 1.0 / kSteps;
      std::int64_t accepted = 0;
      while (accepted < length.length() && stays(random)) {
        ++accepted;
      }
      yielded += static_cast<double>(accepted + 1) / kSteps;
      length.count_accepted(accepted);
    }
    CAPTURE(right);
    const std::vector<double> predicted = lengths(fit, 10);
    CHECK(std::accumulate(predicted.begin(), predicted.end(), 0.0) == Approx(1.0));
    for (std::size_t i = 0; i < share.size(); ++i) {
      CHECK(predicted[i] == Approx(share[i]).margin(0.005));
    }
    CHECK(tokens(fit, adapted(10)) == Approx(yielded).epsilon(0.01));
  }
}

TEST_CASE("its price is the mean over its lengths, of steps that the host leads") {
  FittedModel fit = fitted_by_hand(0.8, 0.9, true);
  fit.conditions.launch = LaunchMode::kGraph;
  const LlmShape target = named_llm_shape("nsa-1b");
  const HardwareSpec& machine = hardware_by_key("h200-sxm");
  const auto us = [&](const Strategy& s) {
    return predicted_step_us(fit, machine, target, s, kContext);
  };
  const double whole = us(adapted(10));
  CHECK(whole > us({.draft = chain_of(1)}));
  const std::vector<StepPart> parts =
      predicted_step_parts(fit, machine, target, usual_draft(target), adapted(10), kContext);
  CHECK(std::any_of(parts.begin(), parts.end(),
                    [](const StepPart& p) { return p.name == "host waits"; }));
  // The same by hand, all of them led by the host.
  const std::vector<double> share = lengths(fit, 10);
  double sum = 0.0;
  fit.conditions.launch = LaunchMode::kStream;
  for (std::size_t i = 0; i < share.size(); ++i) {
    sum += share[i] * us({.draft = chain_of(static_cast<std::int64_t>(i) + 1)});
  }
  CHECK(whole == Approx(sum).epsilon(1e-9));
}

TEST_CASE("chains of a length that follows are ranked beside trees, and nothing exports them") {
  const LlmShape target = named_llm_shape("nsa-1b");
  PlanOptions options;
  options.buckets = {{4096, 8192}};
  options.classes = {PrecisionClass::kStrict};
  options.ranks = 100000;
  options.distinct = false;
  const PlanTable table =
      plan(fitted_by_hand(0.8, 0.9, true), hardware_by_key("h200-sxm"), target, options);
  std::int64_t count = 0;
  for (const PlanEntry& e : table.entries) {
    if (e.evaluation.strategy.adapts_length) {
      ++count;
      CHECK(e.evaluation.throughput ==
            Approx(e.evaluation.expected_accepted / e.evaluation.cost->time_us * 1e6));
      CHECK_THAT(e.note, Catch::Contains("its length follows what is accepted"));
      CHECK(e.price.from == PriceFrom::kConstruction);
    }
  }
  CHECK(count == 7);  // depths 5 to 14
  for (const PlanBaseline& b : table.baselines) {
    CHECK(!b.evaluation.strategy.adapts_length);
  }
  CHECK(!is_plain_chain(adapted(7)));
}
