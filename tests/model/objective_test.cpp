// Plans that are after more than tokens a second: a first token's time, and tokens a joule.
#include "model/plan/objective.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "model/plan/concurrency.h"
#include "model/words/error.h"
#include "tests/support/planned.h"

using namespace versieve;

namespace {

PromptTimes prompts() {
  return {.device = "NVIDIA H200",
          .geometry = "nsa-1b",
          .rows = 2048,
          .points = {{1024, 14.0, {13.9, 14.2}}, {4096, 58.0, {57.9, 58.1}}}};
}

EnergyLaw law() {
  return {.points = 12,
          .watts = 200.0,
          .joules_per_byte = 8e-11,
          .joules_per_flop = 6e-13,
          .log_error = 0.05,
          .most_requests = 64};
}

PlanOptions options_of(PlanAims aims) {
  PlanOptions options;
  options.buckets = {default_buckets().front()};
  options.classes = {PrecisionClass::kStrict};
  options.schedules = {"F*"};
  options.concurrency = {1, 16, 64};
  options.aims = std::move(aims);
  return options;
}

double log_width(const Interval& interval) {
  return std::log(interval.high / interval.low);
}

PlanTable planned(const PlanAims& aims, const EnergyLaw& energy = {}) {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.energy = energy;
  return plan(fit, hardware_by_key("h200-sxm"), named_llm_shape("nsa-1b"), options_of(aims));
}

}  // namespace

TEST_CASE("a prompt takes what was measured, and less surely what was not") {
  const PromptTimes times = prompts();
  CHECK(prompt_time(times, 1024).ms == Approx(14.0));
  CHECK(prompt_time(times, 4096).ms == Approx(58.0));
  const PromptTime between = prompt_time(times, 2048);
  CHECK(between.ms == Approx(std::sqrt(14.0 * 58.0)));
  CHECK(between.log_error > prompt_time(times, 4096).log_error);
  // Beyond along the line through the nearest two, a doubling less sure than the longest.
  const PromptTime beyond = prompt_time(times, 8192);
  CHECK(beyond.ms == Approx(58.0 * std::sqrt(58.0 / 14.0)));
  CHECK(beyond.log_error ==
        Approx(std::hypot(kPromptDoublingError, kPromptCardError)).margin(0.002));
  CHECK(prompt_time(times, 512).ms == Approx(14.0 / std::sqrt(58.0 / 14.0)));
  PromptTimes one = times;
  one.points.resize(1);
  CHECK(prompt_time(one, 3072).ms == Approx(42.0));
}

TEST_CASE("a first token waits for its prompt and for the others' steps between its pieces") {
  Evaluation e;
  e.cost = StepCost{.time_us = 2000.0};
  e.latency_interval_us = {1800.0, 2300.0};
  const PromptTimes times = prompts();
  CHECK(first_token(times, e, 1, 4096).ms == Approx(58.0));
  const FirstToken of_four = first_token(times, e, 4, 4096);  // two pieces of 2,048
  CHECK(of_four.ms == Approx(58.0 + 2 * 2.0 * 0.75));
  CHECK(of_four.interval.low < 58.0 + 2 * 1.8 * 0.75);
  CHECK(of_four.interval.high > 58.0 + 2 * 2.3 * 0.75);
  CHECK(first_token(times, e, 64, 4096).ms > of_four.ms);
}

TEST_CASE("a bound on the first token leaves out tuples whose steps are too long for it") {
  const PlanTable free = planned({.prompts = prompts()});
  CHECK(has_concurrency(free));
  const PlanTable& many = free.batched[1];
  const auto late = [&](const PlanEntry& e, std::int64_t requests) {
    return first_token(prompts(), e.evaluation, requests, 4096).interval.high;
  };
  double least = 1e9, most = 0.0;
  for (const PlanEntry& e : many.entries) {
    least = std::min(least, late(e, 64));
    most = std::max(most, late(e, 64));
  }
  REQUIRE(least < most);
  const double bound = 0.5 * (least + most);
  const PlanTable kept = planned({.ttft_ms = bound, .prompts = prompts()});
  CHECK(!kept.batched[1].entries.empty());
  for (const PlanTable* of : by_concurrency(kept)) {
    for (const PlanEntry& e : of->entries) {
      CHECK(late(e, of->concurrency) <= bound);
    }
  }
  const PlanTable none = planned({.ttft_ms = 1.0, .prompts = prompts()});
  CHECK(none.entries.empty());
  REQUIRE(!none.unavailable.empty());
  CHECK(none.unavailable[0].reason.find("no tuple keeps 1 ms to the first token") == 0);
}

TEST_CASE("tokens a joule follow the law, and rank tuples where a plan is after them") {
  const PlanTable tokens = planned({}, law());
  const PlanTable energy = planned({.objective = Objective::kEnergy}, law());
  const auto yield = [](const Evaluation& e) { return energy_yield(law(), e, 1).tokens_per_joule; };
  for (const PlanTable* of : by_concurrency(energy)) {
    for (std::size_t i = 1; i < of->entries.size(); ++i) {
      CHECK(yield(of->entries[i - 1].evaluation) >= yield(of->entries[i].evaluation));
    }
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const Evaluation& by_tokens = tokens.batched[i].entries[0].evaluation;
    const Evaluation& by_energy = energy.batched[i].entries[0].evaluation;
    CHECK(yield(by_energy) >= yield(by_tokens));
    CHECK(by_tokens.throughput >= by_energy.throughput);
  }
  const Evaluation& e = energy.entries[0].evaluation;
  const double joules =
      200.0 * 1e-6 * e.cost->time_us + 8e-11 * e.cost->dram_bytes + 6e-13 * e.cost->flops;
  CHECK(yield(e) == Approx(e.expected_accepted / joules));
  const EnergyYield known = energy_yield(law(), e, 64);
  CHECK(log_width(energy_yield(law(), e, 256).interval) > log_width(known.interval));
  CHECK(known.interval.low < known.tokens_per_joule);
  CHECK(known.interval.high / known.tokens_per_joule > e.throughput_interval.high / e.throughput);
  CHECK(operating_point(energy, 0, PrecisionClass::kStrict).entry != nullptr);
}

TEST_CASE("nobody knows what a joule yields where no power was sampled, or on another machine") {
  CHECK_THROWS_AS(planned({.objective = Objective::kEnergy}), Error);
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.energy = law();
  CHECK_THROWS_AS(plan(fit, hardware_by_key("h100-sxm"), named_llm_shape("nsa-1b"),
                       options_of({.objective = Objective::kEnergy})),
                  Error);
  // For tokens a second alone it is planned there, without energy.
  CHECK(!plan(fit, hardware_by_key("h100-sxm"), named_llm_shape("nsa-1b"), options_of({}))
             .energy.sampled());
}
