// A pair's own timed steps in the place of a geometry's: what was measured is quoted, what was not
// is corrected by it, and nobody else's steps count.
#include "engine/analyse/fit/pair_steps.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "model/plan/planner.h"
#include "tests/support/planned.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const std::string kOwn(64, 'a');

// A shape that no geometry has.
PlannedPair pair_of_test() {
  LlmShape target = named_llm_shape("nsa-1b");
  target.name = "/models/mine";
  target.layers = 12;
  target.hidden = 1024;
  target.num_heads = 16;
  target.num_kv_heads = 4;
  return {kOwn, target, draft_shape_for(target)};
}

FittedModel fit_of_test() {
  FittedModel fit = synthetic::fitted_by_hand(0.8, 0.9, true);
  fit.conditions.launch = LaunchMode::kGraph;
  fit.acceptance.sha256 = kOwn;
  fit.acceptance.overlap_of = {"mine", kOwn};
  return fit;
}

constexpr const char* kStrategies[] = {"nsa/ar",
                                       "nsa/d7k1n8/bfs/c1/F*",
                                       "nsa/d5k4n16/bfs/c1/F*",
                                       "nsa/d6k8n64/bfs/c1/F*",
                                       "nsa/d5k4n16/bfs/c8e/F*",
                                       "nsa/d8k8n128/bfs/c1/F*"};

// `factor` times what the fit says of each.
std::vector<PointMeasurement> steps_of_test(double factor) {
  const PlannedPair pair = pair_of_test();
  const FittedModel fit = fit_of_test();
  std::vector<PointMeasurement> steps;
  for (const std::int64_t context : {2048, 6144}) {
    for (const char* text : kStrategies) {
      const Strategy strategy = Strategy::parse(text);
      PointMeasurement m;
      m.key = {.workload = WorkloadKind::kStep,
               .model = "mine",
               .pair = kOwn,
               .regime = "code",
               .split = "calibration",
               .strategy = text,
               .dtype = Dtype::kBf16,
               .backend = Backend::kCuda,
               .cache_state = CacheState::kAsIs,
               .launch = LaunchMode::kGraph,
               .context_len = context,
               .num_queries = strategy.draft.nodes};
      const double us = factor * predicted_step_us(fit, hardware_by_key("h200-sxm"), pair.target,
                                                   pair.draft, strategy, context);
      m.time_ns = {1e3 * us, 1e3 * us, 1e3 * us};
      m.adjacent_overlap = 0.6;
      // As the engine runs it, and the planner prices it.
      m.ranges.push_back({.path = name_of(strategy.draft.nodes == 1 ? LaunchKind::kDecodeLayers
                                                                    : LaunchKind::kNsaRoute),
                          .launches = 1});
      steps.push_back(m);
    }
  }
  return steps;
}

double planned_us(const PlanTable& table, const std::string& role) {
  for (const PlanBaseline& b : table.baselines) {
    if (b.role == role && b.bucket == 0) {
      return b.evaluation.cost->time_us;
    }
  }
  return 0.0;
}

PlanTable plan_of_test(const FittedModel& fit) {
  const PlannedPair pair = pair_of_test();
  PlanOptions options{.classes = {PrecisionClass::kStrict}, .draft = pair.draft};
  options.pair = PairId{"mine", kOwn};
  return plan(fit, hardware_by_key("h200-sxm"), pair.target, options);
}

}  // namespace

TEST_CASE("a pair's timed steps are what its plan says, and correct the tuples between them") {
  const FittedModel before = fit_of_test();
  FittedModel fit = before;
  CHECK(use_pair_steps(steps_of_test(1.5), pair_of_test(), fit) == 12);
  CHECK(fit.steps_pair == kOwn);
  CHECK(fit.geometry == "/models/mine");
  const PlanTable borrowed = plan_of_test(before);
  const PlanTable own = plan_of_test(fit);
  for (const char* role : {"autoregressive", "fixed"}) {
    CHECK(planned_us(own, role) == Approx(1.5 * planned_us(borrowed, role)).epsilon(0.02));
  }
  // Between them: another tree, at a context that was not measured.
  const PlannedPair pair = pair_of_test();
  const auto us = [&](const FittedModel& model) {
    return predicted_step_us(model, hardware_by_key("h200-sxm"), pair.target, pair.draft,
                             Strategy::parse("nsa/d6k6n32/bfs/c1/F*"), 3000);
  };
  CHECK(us(fit) == Approx(1.5 * us(before)).epsilon(0.1));
  // All are off alike, so that unseen ones of the pair are well known.
  CHECK(fit.errors[0].log_latency < before.errors[0].log_latency);
  REQUIRE(own.sources);
  CHECK(own.sources->times == EvidenceFrom::kOwn);
  CHECK(own.sources->timed_steps == 12);
  CHECK(borrowed.sources->times == EvidenceFrom::kBorrowed);
  CHECK(borrowed.sources->acceptance == EvidenceFrom::kOwn);
}

TEST_CASE("steps that say nothing of a plan's launches leave the fit as it is") {
  for (int kind = 0; kind < 6; ++kind) {
    std::vector<PointMeasurement> steps = steps_of_test(2.0);
    for (PointMeasurement& m : steps) {
      m.key.backend = kind == 0 ? Backend::kCpu : m.key.backend;
      m.key.dtype = kind == 1 ? Dtype::kF32 : m.key.dtype;
      m.key.launch = kind == 2 ? LaunchMode::kStream : m.key.launch;
      m.reliability = kind == 3 ? Reliability::kThrottled : m.reliability;
      const Strategy strategy = Strategy::parse(m.key.strategy);
      if (kind == 4) {
        m.key.strategy = strategy.draft.speculates() ? m.key.strategy + "/form=vanilla"
                                                     : "nsa/ar/bfs/c1/F*/form=vanilla";
      } else if (kind == 5 && strategy.group_size == 1) {
        m.key.strategy = "dense" + m.key.strategy.substr(3);
      } else if (kind == 5) {
        m.key.launch = LaunchMode::kStream;
      }
    }
    FittedModel fit = fit_of_test();
    CHECK(use_pair_steps(steps, pair_of_test(), fit) == 0);
    CHECK(fit.steps_pair.empty());
    CHECK(fit.geometry == "nsa-1b");
    CHECK(fit.step_time.families.empty());
  }
}

// Without its launches a plain step looks like one whose layers were launched one by one.
TEST_CASE("timed steps of which no launch is stored are not used, and counted") {
  std::vector<PointMeasurement> steps = steps_of_test(1.5);
  steps[0].ranges.clear();
  steps[1].ranges.clear();
  std::map<std::string, std::int64_t> left_out;
  FittedModel fit = fit_of_test();
  CHECK(use_pair_steps(steps, pair_of_test(), fit, &left_out) == 10);
  REQUIRE(left_out.size() == 1);
  CHECK(left_out.rbegin()->first.find("no launch is stored") != std::string::npos);
  CHECK(left_out.rbegin()->second == 2);
  CHECK(fit.steps.size() == 10);
}

// The planner itself compares hashes: a fit with another pair's numbers cannot pass for the pair's.
TEST_CASE("numbers of another hash are borrowed, whatever the pair is called") {
  FittedModel fit = fit_of_test();
  use_pair_steps(steps_of_test(1.0), pair_of_test(), fit);
  fit.steps_pair = std::string(64, 'b');
  fit.acceptance.sha256 = std::string(64, 'b');
  fit.acceptance.pair = "mine";
  fit.acceptance.overlap_of = {"mine", ""};
  const PlanTable table = plan_of_test(fit);
  REQUIRE(table.sources);
  CHECK(table.sources->acceptance == EvidenceFrom::kBorrowed);
  CHECK(table.sources->overlap == EvidenceFrom::kBorrowed);
  CHECK(table.sources->times == EvidenceFrom::kBorrowed);
  CHECK_THAT(sources_text(table), Catch::Contains("mine (sha256 aaaaaaaaaaaa): acceptance borrowed "
                                                  "from mine (sha256 bbbbbbbbbbbb)"));
  fit.acceptance.origin = AcceptanceOrigin::kAssumed;
  fit.acceptance.overlap_of = {};
  CHECK(plan_of_test(fit).sources->acceptance == EvidenceFrom::kAssumed);
  CHECK(plan_of_test(fit).sources->overlap == EvidenceFrom::kAssumed);
}
