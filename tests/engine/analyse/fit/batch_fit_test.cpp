// Steps of many requests made by a known law: what a fit finds of it, and what it leaves alone.
#include "engine/analyse/fit/batch_fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "engine/analyse/fit/batch_points.h"
#include "model/cost/cost_model.h"
#include "model/words/range_counters.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;
using synthetic::h200;
using synthetic::joined;

namespace {

constexpr FitOptions kQuick = {.leave_out_regimes = false};

std::vector<PointMeasurement> single_points() {
  synthetic::Plan plan;
  plan.form = NsaForm::kFused;
  plan.step_launch = LaunchMode::kGraph;
  return joined(synthetic::attention_points(plan, h200()), synthetic::step_points(plan, h200()));
}

// What many requests take here, by hand, of an engine that records its forward.
BatchTerms planted() {
  return {0.7, 1.6, 1.0, 2.0, 0.01, 30.0, 12.0};
}

PointMeasurement batch_point(const std::string& strategy, std::int64_t requests,
                             std::int64_t context_len) {
  PointMeasurement m{.key = {.workload = WorkloadKind::kBatch,
                             .model = "nsa-1b",
                             .regime = "synthetic",
                             .strategy = strategy,
                             .dtype = Dtype::kBf16,
                             .cache_state = CacheState::kAsIs,
                             .launch = LaunchMode::kStream,
                             .context_len = context_len}};
  m.key.num_queries = requests * Strategy::parse(strategy).draft.nodes;
  m.time_ns = {1.0, 1.0, 1.0};
  for (const LaunchKind kind :
       {LaunchKind::kLinear, LaunchKind::kNsaRoute, LaunchKind::kNsaAttend}) {
    m.ranges.push_back({.path = path_of(kind), .launches = 16, .gpu_time_ns = {1.0}});
  }
  return m;
}

// The times that the planted terms give on top of a fit.
std::vector<PointMeasurement> batch_points_by(const FittedModel& model,
                                              const std::vector<PointMeasurement>& single,
                                              const std::vector<std::int64_t>& numbers) {
  std::vector<PointMeasurement> out;
  for (const std::int64_t requests : numbers) {
    for (const char* strategy : {"nsa/ar", "nsa/d4k1n5/bfs/c1/F*", "nsa/d5k4n16/bfs/c1/F*"}) {
      for (const std::int64_t context : {4096, 16384}) {
        PointMeasurement m = batch_point(strategy, requests, context);
        const BatchPoints known = batch_points(joined(single, {m}), model);
        REQUIRE(known.points.size() == 1);
        StepWork work = known.points[0].work;
        apply_batch(planted(), {}, known.points[0].point.shape, work);
        const RunConditions conditions = conditions_of(work, known.points[0].point.conditions);
        const CostParameters parameters = model.parameters();
        m.time_ns.assign(5, 1e3 * cost_of(work, h200(), parameters, conditions).time_us);
        const KindCosts kinds = cost_by_kind(work, h200(), parameters, conditions);
        for (RangeMeasurement& range : m.ranges) {
          const LaunchKind kind = *launch_kind(range.path);
          range.gpu_time_ns = {1e3 * kinds[static_cast<std::size_t>(kind)].time_us};
        }
        out.push_back(m);
      }
    }
  }
  return out;
}

FitReport fitted(const std::vector<PointMeasurement>& points) {
  return fit_cost_model(points, "NVIDIA H200", h200(), {"run"}, kQuick);
}

}  // namespace

TEST_CASE("a batch's step is composed with the draft that such steps run with") {
  const std::vector<PointMeasurement> single = single_points();
  const FitReport before = fitted(single);
  const BatchPoints known =
      batch_points(joined(single, {batch_point("nsa/d4k1n5/bfs/c1/F*", 4, 4096)}), before.model);
  REQUIRE(known.points.size() == 1);
  const DraftShape& draft = known.points[0].point.shape.draft;
  CHECK(draft.vocab == usual_draft(named_llm_shape("nsa-1b")).vocab);
  CHECK(draft.vocab < named_llm_shape("nsa-1b").vocab);
}

TEST_CASE("a batch whose rows are no whole number of trees is left out with its reason") {
  const std::vector<PointMeasurement> single = single_points();
  PointMeasurement torn = batch_point("nsa/d4k1n5/bfs/c1/F*", 4, 4096);
  torn.key.num_queries += 1;
  const BatchPoints known = batch_points(joined(single, {torn}), fitted(single).model);
  CHECK(known.points.empty());
  const std::string reason =
      "steps of many requests: a batch of 21 nodes is no whole number of trees of 5";
  CHECK(known.skipped.count(reason) == 1);
}

TEST_CASE("a batch's step is composed of the levels that its engine grew, also of one request") {
  const std::vector<PointMeasurement> single = single_points();
  const FitReport before = fitted(single);
  const auto levels_of = [&](std::int64_t requests, std::optional<std::int64_t> launches) {
    PointMeasurement m = batch_point("nsa/d6k3n8/bfs/c8e/F*", requests, 4096);
    if (launches) {
      m.ranges.push_back({.path = name_of(LaunchKind::kTreeAttention), .launches = *launches});
    }
    const BatchPoints known = batch_points(joined(single, {m}), before.model);
    REQUIRE(known.points.size() == 1);
    double levels = 0.0;
    for (const LaunchWork& work : known.points[0].work) {
      levels += work.kind == LaunchKind::kTreeAttention ? work.launches : 0.0;
    }
    return levels;
  };
  CHECK(levels_of(8, {}) == 6.0);
  CHECK(levels_of(8, 6) == 6.0);
  CHECK(levels_of(1, 6) == 6.0);
  CHECK(levels_of(8, 3) == 3.0);  // an older engine's
}

TEST_CASE("a fit finds what many requests take, and moves nothing of steps of one") {
  const std::vector<PointMeasurement> single = single_points();
  const FitReport before = fitted(single);
  CHECK(!before.model.batch.measured());
  CHECK(before.batches.empty());
  const auto batches = batch_points_by(before.model, single, {2, 4, 8, 16, 32, 64});
  const FitReport after = fitted(joined(single, batches));
  const BatchFit& b = after.model.batch;
  CHECK(b.points == 36);
  CHECK(b.measured(AttentionKind::kNsa));
  CHECK(!b.measured(AttentionKind::kDense));
  CHECK(b.most_requests == 64);
  CHECK(b.most_rows == 1024);
  CHECK(b.launch == LaunchMode::kStream);
  // What traced kernels tell apart; of the host's four terms their sum alone is known so well.
  for (const BatchTerm term : {BatchTerm::kProducts, BatchTerm::kAttention}) {
    const std::size_t i = static_cast<std::size_t>(term);
    CAPTURE(batch_term_table()[i].name, b.terms[i].value, planted()[i]);
    CHECK(b.terms[i].informed);
    CHECK(b.terms[i].value == Approx(planted()[i]).epsilon(0.15));
  }
  // Whole numbers of requests left out, the least and the greatest beyond.
  REQUIRE(after.batches.size() == 6);
  CHECK(after.batches.front().beyond);
  CHECK(after.batches.back().beyond);
  CHECK(after.batch_latency.points == 24);
  CHECK(*after.batch_latency.median_ape < 0.02);
  CHECK(b.log_latency < 0.1);
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    CHECK(after.model.estimates[i].value == before.model.estimates[i].value);
  }
  CHECK(after.model.points == before.model.points);
}

TEST_CASE(
    "few numbers of requests, and points that nobody can use, teach nothing and are counted") {
  const std::vector<PointMeasurement> single = single_points();
  const FitReport before = fitted(single);
  auto batches = batch_points_by(before.model, single, {2, 4, 8});
  PointMeasurement throttled = batch_point("nsa/ar", 16, 4096);
  throttled.reliability = Reliability::kThrottled;
  batches.push_back(throttled);
  PointMeasurement refused = batch_point("nsa/ar", 128, 4096);
  refused.status = PointStatus::kRefused;
  batches.push_back(refused);
  const FitReport after = fitted(joined(single, batches));
  CHECK(!after.model.batch.measured());
  std::int64_t few = 0, others = 0;
  for (const auto& [reason, points] : after.skipped) {
    few += reason.find("fewer than 4") != std::string::npos ? points : 0;
    others += reason.starts_with("steps of many requests: ") ? points : 0;
  }
  CHECK(few == 18);
  CHECK(others == 2);
}

TEST_CASE("a law of energy is found in steps whose power was sampled, and in no others") {
  const std::vector<PointMeasurement> single = single_points();
  const FitReport before = fitted(single);
  const auto timed = batch_points_by(before.model, single, {2, 4, 8, 16, 32, 64});
  const FittedModel model = fitted(joined(single, timed)).model;
  CHECK(!model.energy.sampled());
  const EnergyLaw planted{
      .points = 1, .watts = 180.0, .joules_per_byte = 9e-11, .joules_per_flop = 7e-13};
  auto sampled = timed;
  for (PointMeasurement& m : sampled) {
    const BatchPoints known = batch_points(joined(single, {m}), model);
    StepWork work = known.points[0].work;
    apply_batch(model.batch.values(), model.batch.kinds, known.points[0].point.shape, work);
    StepCost cost = cost_of(work, h200(), model.parameters(), known.points[0].point.conditions);
    cost.time_us = 1e-3 * m.time_ns[0];
    m.ranges.push_back({.path = kEnergyRange, .launches = 100});
    m.ranges.back().counters = {{kEnergyJoules, planted.joules(cost), CounterStatus::kOk}};
  }
  const FitReport after = fitted(joined(single, sampled));
  const EnergyLaw& found = after.model.energy;
  CHECK(found.points == 36);
  CHECK(found.most_requests == 64);
  CHECK(found.watts == Approx(planted.watts).epsilon(0.02));
  CHECK(found.joules_per_byte == Approx(planted.joules_per_byte).epsilon(0.02));
  CHECK(found.joules_per_flop == Approx(planted.joules_per_flop).epsilon(0.02));
  CHECK(*after.energy.p90_ape < 0.01);
  CHECK(found.log_error < 0.01);
  // It changes nothing of times.
  CHECK(after.model.batch.values() == model.batch.values());
  // Five points are too few.
  const std::vector<PointMeasurement> few(sampled.begin(), sampled.begin() + 5);
  CHECK(!fitted(joined(single, few)).model.energy.sampled());
}
