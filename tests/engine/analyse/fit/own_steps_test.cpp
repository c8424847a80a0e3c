// A geometry's own timed steps: what they correct, whose they are, how far they reach.
#include "engine/analyse/fit/own_steps.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "model/plan/planner.h"
#include "tests/support/planned.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

constexpr const char* kTuples[] = {"nsa/ar",
                                   "nsa/d7k1n8/bfs/c1/F*",
                                   "nsa/d5k4n16/bfs/c1/F*",
                                   "nsa/d6k8n64/bfs/c1/F*",
                                   "nsa/d5k4n16/bfs/c8e/F*",
                                   "nsa/d8k8n128/bfs/c1/F*"};

double predicted_us(const FittedModel& fit, const std::string& geometry, const char* tuple,
                    std::int64_t context_len) {
  return predicted_step_us(fit, hardware_by_key("h200-sxm"), named_llm_shape(geometry),
                           Strategy::parse(tuple), context_len);
}

void add_steps(const std::string& geometry, double factor, FittedModel& fit) {
  const FittedModel before = fit;
  for (const std::int64_t context : {2048, 6144}) {
    for (const char* tuple : kTuples) {
      const double us = predicted_us(before, geometry, tuple, context);
      fit.steps.push_back({.strategy = Strategy::parse(tuple),
                           .context_len = context,
                           .time_us = factor * us,
                           .log_error = 0.005,
                           .predicted_us = us,
                           .draft_vocab = kPublishedDraftVocab,
                           .geometry = geometry});
    }
  }
}

FittedModel fit_of_two() {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  add_steps("nsa-1b", 0.9, fit);
  add_steps("nsa-8b", 1.2, fit);
  return fit;
}

constexpr const char* kUnseen = "nsa/d6k6n32/bfs/c1/F*";

std::int64_t use(const std::string& geometry, FittedModel& fit) {
  const LlmShape target = named_llm_shape(geometry);
  return use_own_steps(target, usual_draft(target), fit);
}

}  // namespace

TEST_CASE("a geometry's own steps correct the tuples between them, and no other geometry's") {
  const FittedModel before = fit_of_two();
  for (const auto& [geometry, factor] : {std::pair{"nsa-1b", 0.9}, {"nsa-8b", 1.2}}) {
    CAPTURE(geometry);
    FittedModel fit = before;
    CHECK(use(geometry, fit) == 12);
    CHECK(predicted_us(fit, geometry, kUnseen, 3000) ==
          Approx(factor * predicted_us(before, geometry, kUnseen, 3000)).epsilon(0.05));
    // What they say is not counted twice where a step is quoted.
    for (const MeasuredStep& m : fit.steps) {
      if (m.geometry == geometry) {
        CHECK(m.predicted_us == Approx(m.time_us).epsilon(0.05));
      } else {
        CHECK(m.predicted_us != Approx(m.time_us).epsilon(0.05));
      }
    }
  }
}

TEST_CASE("steps of another draft, and a geometry without steps, leave the fit as it is") {
  const FittedModel before = fit_of_two();
  FittedModel fit = before;
  CHECK(use("demo", fit) == 0);
  CHECK(fit.step_time.families.size() == before.step_time.families.size());
  CHECK(fit.errors[0].log_latency == before.errors[0].log_latency);
  LlmShape target = named_llm_shape("nsa-1b");
  DraftShape draft = draft_shape_for(target);
  draft.vocab = 16000;
  CHECK(use_own_steps(target, draft, fit) == 2);  // plain ones have no draft
}

// A plan for sampled texts is the same whether the fit was told their temperature before or after.
TEST_CASE("a timed step says what it says at its own temperature, whatever is planned for") {
  FittedModel before = fit_of_two();
  for (std::size_t i = 0; i < before.steps.size(); i += 3) {
    before.steps[i].temperature = 0.6;
  }
  FittedModel greedy = before, sampled = before;
  sampled.temperature = 0.6;
  CHECK(use("nsa-1b", greedy) == use("nsa-1b", sampled));
  CHECK(sampled.temperature == 0.6);
  greedy.temperature = 0.6;
  for (const char* strategy : {"nsa/ar", kUnseen}) {
    CHECK(predicted_us(greedy, "nsa-1b", strategy, 3000) ==
          predicted_us(sampled, "nsa-1b", strategy, 3000));
  }
  for (std::size_t i = 0; i < greedy.steps.size(); ++i) {
    CHECK(greedy.steps[i].predicted_us == sampled.steps[i].predicted_us);
  }
}

TEST_CASE("steps of the vanilla form teach nothing of the fused one's") {
  const FittedModel fused = fit_of_two();
  FittedModel both = fused;
  for (const MeasuredStep& m : fused.steps) {
    MeasuredStep vanilla = m;
    vanilla.strategy.form = NsaForm::kVanilla;
    vanilla.time_us *= 2.0;
    both.steps.push_back(vanilla);
  }
  FittedModel alone = fused;
  CHECK(use("nsa-1b", alone) == 12);
  CHECK(use("nsa-1b", both) == 12);
  CHECK(predicted_us(both, "nsa-1b", kUnseen, 3000) ==
        predicted_us(alone, "nsa-1b", kUnseen, 3000));
  CHECK(both.errors[0].log_latency == alone.errors[0].log_latency);
}

TEST_CASE("own steps say how well they are known in the contexts that they lie in alone") {
  FittedModel fit = fit_of_two();
  fit.errors = {{0, 4096, 0.10, 0.1, 100, 0.12},
                {4096, 8192, 0.10, 0.1, 100, 0.12},
                {8192, 65536, 0.10, 0.1, 100, 0.12}};
  CHECK(use("nsa-8b", fit) == 12);
  CHECK(fit.errors[0].log_latency < 0.08);
  CHECK(fit.errors[1].log_latency < 0.08);
  CHECK(fit.errors[2].log_latency == 0.10);
}
