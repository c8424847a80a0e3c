// A step looked into: its launches are all of it, and each knows what holds it.
#include "model/cost/step_parts.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/plan/planner.h"
#include "tests/support/planned.h"

using namespace versieve;

namespace {

const HardwareSpec& h200() {
  return hardware_by_key("h200-sxm");
}

std::vector<StepPart> parts_of(const FittedModel& fit, const char* strategy) {
  const LlmShape target = named_llm_shape("nsa-1b");
  return predicted_step_parts(fit, h200(), target, usual_draft(target), Strategy::parse(strategy),
                              16384);
}

const StepPart* find(const std::vector<StepPart>& parts, const std::string& name, Phase phase,
                     LayerKind layer = LayerKind::kNone) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const StepPart& p) {
    return p.name == name && p.phase == phase && p.layer == layer;
  });
  return found == parts.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a step's launches add up to its time, by the graph, the host and regimes that differ") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  const LlmShape target = named_llm_shape("nsa-1b");
  ResidualField::Family slow{.family = 4, .length = 2.0};
  slow.anchors = {step_regime({.target = target, .context_len = 8192, .num_queries = 16}).at};
  slow.weights = {0.3};
  fit.step_time.families = {slow};
  for (const LaunchMode launch : {LaunchMode::kGraph, LaunchMode::kStream}) {
    fit.conditions.launch = launch;
    for (const char* text :
         {"nsa/ar", "nsa/d6k8n64/bfs/c8e/F*", "nsa/d6k8n64/dfs/c4a/(FR)*", "nsa/d3k1n4/bfs/c1/F*",
          "dense/ar", "resa:b32p0.1f32/ar", "nsa/d3k1n4/bfs/c1/F*/sampling=sigmoid"}) {
      CAPTURE(text);
      double sum = 0.0;
      for (const StepPart& p : parts_of(fit, text)) {
        CAPTURE(p.name);
        sum += p.time_us;
        double bounds = 0.0;
        for (const double us : p.bound_us) {
          bounds += us;
        }
        CHECK(bounds == Approx(p.time_us));
        CHECK(p.floor_us == Approx(p.dram_bytes / *cold_read_rate(h200()) * 1e6));
        CHECK(p.launches > 0.0);
      }
      CHECK(sum == Approx(predicted_step_us(fit, h200(), target, Strategy::parse(text), 16384)));
    }
    CHECK((find(parts_of(fit, "nsa/d6k8n64/bfs/c8e/F*"), "host waits", Phase::kOther) != nullptr) ==
          (launch == LaunchMode::kStream));
  }
}

TEST_CASE("launches are told apart by what they work for, those that take most first") {
  const FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  const std::vector<StepPart> parts = parts_of(fit, "nsa/d6k8n64/bfs/c8e/(FRRR)*");
  CHECK(std::is_sorted(parts.begin(), parts.end(),
                       [](const auto& a, const auto& b) { return a.time_us > b.time_us; }));
  const StepPart* attend = find(parts, "nsa_attend", Phase::kAttention, LayerKind::kRefresh);
  const StepPart* reuse = find(parts, "nsa_reuse", Phase::kAttention, LayerKind::kReuse);
  REQUIRE(attend != nullptr);
  REQUIRE(reuse != nullptr);
  CHECK(attend->launches == 4.0);
  CHECK(reuse->launches == 12.0);
  CHECK(find(parts, "linear", Phase::kDraft) != nullptr);
  const StepPart* matrices = find(parts, "linear", Phase::kMatrices);
  REQUIRE(matrices != nullptr);
  CHECK(matrices->dram_bytes > 2.4e9);  // the weights of nsa-1b in bf16
  const std::vector<StepPart> one_row = parts_of(fit, "nsa/ar");
  const StepPart* plain = find(one_row, "linear", Phase::kMatrices);
  REQUIRE(plain != nullptr);
  CHECK(bottleneck_of(*plain) == Bound::kDram);
}

TEST_CASE("a step that draws its tokens has the launches that draw, and takes longer for them") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.conditions.launch = LaunchMode::kGraph;
  const LlmShape target = named_llm_shape("nsa-1b");
  const auto us = [&](const char* text) {
    return predicted_step_us(fit, h200(), target, Strategy::parse(text), 16384);
  };
  for (const char* text : {"nsa/ar", "nsa/d6k8n64/bfs/c8e/F*", "nsa/d7k1n8/bfs/c1/F*"}) {
    CAPTURE(text);
    fit.temperature = 0.0;
    const double greedy = us(text);
    CHECK(find(parts_of(fit, text), "gumbel_noise", Phase::kAcceptance) == nullptr);
    fit.temperature = 0.6;
    const std::vector<StepPart> parts = parts_of(fit, text);
    const StepPart* noise = find(parts, "gumbel_noise", Phase::kAcceptance);
    REQUIRE(noise != nullptr);
    CHECK(noise->launches == 1.0);
    CHECK((find(parts, "gumbel_noise", Phase::kDraft) != nullptr) ==
          Strategy::parse(text).draft.speculates());
    CHECK(find(parts, "host waits", Phase::kOther) == nullptr);  // recorded as greedy ones are
    CHECK(us(text) > greedy + noise->time_us);
  }
  // Speculative sampling in the greedy walk's place: the host leads it.
  const std::vector<StepPart> exact = parts_of(fit, "nsa/d7k1n8/bfs/c1/F*/sampling=exact");
  CHECK(find(exact, "host waits", Phase::kOther) != nullptr);
  CHECK(find(exact, "tree_tests", Phase::kAcceptance) != nullptr);  // some of the target's tokens
  CHECK(find(exact, "top_logits", Phase::kAcceptance) == nullptr);
  CHECK(find(exact, "spec_pick", Phase::kAcceptance) == nullptr);
  const std::vector<StepPart> sigmoid = parts_of(fit, "nsa/d7k1n8/bfs/c1/F*/sampling=sigmoid");
  CHECK(find(sigmoid, "spec_chain", Phase::kAcceptance) != nullptr);
  REQUIRE(find(sigmoid, "spec_chain", Phase::kDraft) != nullptr);
  CHECK(find(sigmoid, "spec_chain", Phase::kDraft)->launches == 7.0);
}

TEST_CASE("timed steps that draw speak for the steps of a plan that draws, greedy ones else") {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.conditions.launch = LaunchMode::kGraph;
  const LlmShape target = named_llm_shape("nsa-1b");
  const Strategy tree = Strategy::parse("nsa/d6k8n64/bfs/c1/F*");
  const auto plan_us = [&] {
    PlanOptions options;
    options.buckets = {{4096, 8192}};
    options.classes = {PrecisionClass::kStrict};
    options.baseline = tree.text();
    const PlanTable table = plan(fit, h200(), target, options);
    return table.baselines.at(1).evaluation;
  };
  const MeasuredStep greedy{.strategy = tree,
                            .context_len = 6144,
                            .time_us = 1100.0,
                            .predicted_us = 1000.0,
                            .draft_vocab = usual_draft(target).vocab,
                            .geometry = target.name};
  MeasuredStep drawn = greedy;
  drawn.temperature = 1.0;
  drawn.time_us = 1300.0;
  fit.temperature = 0.6;
  const Evaluation predicted = plan_us();
  fit.steps = {greedy};
  const Evaluation stands_in = plan_us();
  CHECK(stands_in.cost->time_us == Approx(1.1 * predicted.cost->time_us));
  CHECK(stands_in.source == Provenance::kPredicted);
  fit.steps = {greedy, drawn};
  CHECK(plan_us().cost->time_us == Approx(1.3 * predicted.cost->time_us));
  fit.temperature = 0.0;
  const double own = plan_us().cost->time_us;
  fit.steps = {drawn};
  CHECK(plan_us().cost->time_us == Approx(own / 1.1));  // says nothing of greedy steps
}
