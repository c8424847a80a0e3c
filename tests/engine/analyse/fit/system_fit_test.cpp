// The fit of the other systems: planted laws come back, NSA's parameters stay, points of older
// launches are not learned from, and a plan made from the file prices what was fitted.
#include "engine/analyse/fit/system_fit.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <map>

#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/pair_steps.h"
#include "engine/analyse/fit/system_points.h"
#include "model/plan/planner.h"
#include "model/plan/system_grid.h"
#include "tests/support/synthetic_points.h"
#include "tests/support/system_points.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;
using synthetic::h200;
using synthetic::joined;

namespace {

constexpr FitOptions kQuick = {.leave_out_regimes = false};

synthetic::Plan planted() {
  synthetic::Plan plan;
  plan.form = NsaForm::kFused;
  plan.step_launch = LaunchMode::kGraph;
  CostParameters& p = plan.parameters;
  p[index_of(LaunchKind::kTopkRadix, KindParameter::kBaseUs)] = 7.0;
  p[index_of(LaunchKind::kFlashDecode, KindParameter::kStepNs)] = 1650.0;
  return plan;
}

std::vector<PointMeasurement> nsa_points(const synthetic::Plan& plan) {
  return joined(
      joined(synthetic::attention_points(plan, h200()), synthetic::step_points(plan, h200())),
      synthetic::acceptance_points(0.8, 0.9, 0.98));
}

FitReport fitted(const std::vector<PointMeasurement>& points) {
  return fit_cost_model(points, "NVIDIA H200", h200(), {"run"}, kQuick);
}

const FitReport& both() {
  static const FitReport report =
      fitted(joined(nsa_points(planted()), synthetic::system_points(planted(), h200())));
  return report;
}

}  // namespace

TEST_CASE("the other systems' launches are fitted beside NSA's, which they do not touch") {
  const FitReport& report = both();
  const FitReport alone = fitted(nsa_points(planted()));
  CHECK(alone.systems.empty());
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    if (alone.model.estimates[i].informed) {
      CAPTURE(parameter_table()[i].name);
      CHECK(report.model.estimates[i].value == alone.model.estimates[i].value);
    }
  }
  CHECK(*report.latency.median_ape == *alone.latency.median_ape);
  REQUIRE(report.systems.size() == 7);  // decode and step of three, but no step of SpecAttn; top-k
  for (const SystemError& e : report.systems) {
    CAPTURE(e.name);
    CHECK(*e.latency.median_ape < 0.06);
    CHECK(e.log_latency < 0.5);
  }
  for (const LaunchKind kind : {LaunchKind::kResaDecode, LaunchKind::kTopkRadix}) {
    CAPTURE(name_of(kind));
    CHECK(report.model.informs(kind));
    CHECK(!alone.model.informs(kind));
  }
  const ParameterEstimate& base =
      report.model.estimates[index_of(LaunchKind::kTopkRadix, KindParameter::kBaseUs)];
  CHECK(base.value == Approx(7.0).epsilon(0.1));
  // What L2 keeps of a cache from step to step, steps over a dense cache alone tell.
  const std::size_t kept = index_of(SharedParameter::kKeptL2);
  CHECK(!alone.model.estimates[kept].informed);
  CHECK(report.model.estimates[kept].informed);
  CHECK(report.model.estimates[kept].value == Approx(planted().parameters[kept]).epsilon(0.25));
  bool judged = false;
  for (const TermError& row : report.by_term) {
    judged = judged || (row.launch == "resa_decode" && row.latency.points > 0);
  }
  CHECK(judged);
  CHECK(fit_text(report).find("decode resa") != std::string::npos);
}

TEST_CASE("attention whose keys are not split is left out, with what to do") {
  std::vector<PointMeasurement> points = synthetic::system_points(planted(), h200());
  const std::size_t all = system_points(points).points.size();
  std::int64_t unsplit = 0;
  for (PointMeasurement& m : points) {
    for (RangeMeasurement& range : m.ranges) {
      if (range.path == "flash_decode" && m.key.workload == WorkloadKind::kDecode) {
        range.path = "tree_attention";
        unsplit += 1;
      }
    }
  }
  REQUIRE(unsplit > 0);
  const FitPoints left = system_points(points);
  CHECK(left.points.size() + static_cast<std::size_t>(unsplit) == all);
  REQUIRE(left.skipped.size() == 1);
  CHECK(left.skipped.begin()->second == unsplit);
  CHECK(left.skipped.begin()->first.find("measure it again") != std::string::npos);
}

TEST_CASE("another system's timed point of which no launch is stored is left out") {
  std::vector<PointMeasurement> points = synthetic::system_points(planted(), h200());
  const std::size_t all = system_points(points).points.size();
  const auto decode = std::find_if(points.begin(), points.end(), [](const PointMeasurement& m) {
    return m.key.workload == WorkloadKind::kDecode;
  });
  REQUIRE(decode != points.end());
  decode->ranges.clear();
  const FitPoints left = system_points(points);
  CHECK(left.points.size() + 1 == all);
  REQUIRE(left.skipped.size() == 1);
  CHECK(left.skipped.begin()->first.find("timed decode point of which no launch is stored") !=
        std::string::npos);
}

TEST_CASE("a plan ranks the other systems, as fitted and as read back from the file") {
  const test::TempFolder folder;
  const std::string path = (folder / "fit.json").string();
  std::ofstream(path) << fit_json(both());
  const FittedModel read = read_fit(path);
  PlanOptions options;
  options.classes = {PrecisionClass::kSparseRectified, PrecisionClass::kSparse,
                     PrecisionClass::kApproxSampling};
  options.buckets = {{0, 4096}, {12288, 16384}};
  const PlanTable table = plan(both().model, h200(), named_llm_shape("nsa-1b"), options);
  const PlanTable again = plan(read, h200(), named_llm_shape("nsa-1b"), options);
  REQUIRE(table.entries.size() == again.entries.size());
  std::int64_t rectified = 0;
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    const PlanEntry& e = table.entries[i];
    CAPTURE(e.evaluation.strategy.text(), e.note);
    CHECK(again.entries[i].evaluation.throughput == Approx(e.evaluation.throughput).epsilon(1e-9));
    CHECK(e.evaluation.throughput_interval.low < e.evaluation.throughput);
    CHECK(e.evaluation.throughput < e.evaluation.throughput_interval.high);
    if (e.precision == PrecisionClass::kSparseRectified && e.lossy) {
      rectified += 1;
      CHECK(e.evaluation.strategy.resa_rectify_every > 0);
      CHECK(e.evaluation.expected_accepted == 1.0);
      CHECK(e.note.find("dense-1b") != std::string::npos);
    }
  }
  CHECK(rectified >= 10);
  // No sigmoid was measured, and it says so.
  REQUIRE(table.unavailable.size() == 2);
  CHECK(table.unavailable[0].reason.find("sampling=sigmoid") != std::string::npos);
  CHECK(std::count_if(table.baselines.begin(), table.baselines.end(),
                      [](const PlanBaseline& b) { return b.role == "dense target"; }) == 2);
}

namespace {

// Tokens a step of a target that drafts for itself.
ChainYield counted(const std::string& strategy, double tokens) {
  return {.strategy = strategy,
          .context_len = 2048,
          .mean = tokens,
          .log_error = 0.02,
          .texts = 4,
          .pair = {"mine", std::string(64, 'a')},
          .own = true};
}

PlanTable dense_plan(const std::vector<ChainYield>& rows) {
  const LlmShape target = dense_sibling(named_llm_shape("nsa-1b"));
  PlanOptions options;
  options.drafts = false;
  options.baseline = "dense/ar";
  options.schedules = {"F*"};
  options.classes = {PrecisionClass::kStrict};
  options.buckets = {{12288, 16384}};
  options.ranks = 200;
  options.distinct = false;
  options.chain_yields = ChainYields(rows);
  return plan(both().model, h200(), target, options);
}

}  // namespace

TEST_CASE("a target that drafts for itself is planned by what its own drafts yielded") {
  const double seven = (1.0 - std::pow(0.9, 8)) / 0.1;  // nine tokens in ten stay
  const PlanTable table = dense_plan({counted("dense/d7k1n8/bfs/c1/F*/draft=resa:b16p0.1", seven)});
  std::map<std::string, PlanEntry> found;
  for (const PlanEntry& e : table.entries) {
    found[e.evaluation.strategy.text()] = e;
  }
  // Plain decoding, and chains of the one setting that was measured.
  REQUIRE(found.size() == 5);
  const PlanEntry& three = found.at("dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1");
  CHECK(three.evaluation.expected_accepted == Approx(1.0 + 0.9 + 0.81 + 0.729));
  CHECK(three.price.from == PriceFrom::kConstruction);
  CHECK(three.note.find("drafts for itself: tokens a step counted of the pair; no step of such a "
                        "draft was timed") == 0);
  CHECK(found.at("dense/d7k1n8/bfs/c1/F*/draft=resa:b16p0.1").evaluation.expected_accepted ==
        seven);
  CHECK(table.sources->chain_tokens == EvidenceFrom::kOwn);
  const PlanEntry& deep = found.at("dense/d31k1n32/bfs/c1/F*/draft=resa:b16p0.1");
  CHECK(deep.evaluation.expected_accepted == Approx((1.0 - std::pow(0.9, 32)) / 0.1));
  // Three steps of ReSA and a chain of four, which the host leads: gaps of a stream, three waits.
  const FittedModel& fit = both().model;
  const LlmShape target = dense_sibling(named_llm_shape("nsa-1b"));
  const auto us = [&](const char* text) {
    return predicted_step_us(fit, h200(), target, Strategy::parse(text), 16384);
  };
  const double whole = us("dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1");
  const double sparse = us("resa:b16p0.1f0/ar"), plain = us("dense/ar");
  CHECK(whole > 3.0 * sparse + 1.1 * plain);
  CHECK(whole < 3.0 * sparse + 4.0 * plain);
  CHECK(us("dense/d3k1n4/bfs/c1/F*/draft=resa:b16p0.1n_min400") > whole);
  // Nothing measured: nothing planned, with the reason.
  const PlanTable unknown = dense_plan({});
  CHECK(unknown.entries.size() == 1);
  CHECK(std::any_of(unknown.excluded.begin(), unknown.excluded.end(), [](const auto& e) {
    return e.reason.find("own sparse steps' tokens") != std::string::npos;
  }));
}

TEST_CASE("a dense pair's own timed steps correct what its plan says of the others") {
  const std::string pair(64, 'a');
  LlmShape target = dense_sibling(named_llm_shape("nsa-1b"));
  target.name = "/models/dense";
  const PlannedPair own{pair, target, draft_shape_for(target)};
  FittedModel fit = both().model;
  const FittedModel before = fit;
  const auto us = [&](const FittedModel& model, const char* text, std::int64_t context) {
    return predicted_step_us(model, h200(), target, Strategy::parse(text), context);
  };
  std::vector<PointMeasurement> steps;
  for (const std::int64_t context : {2048, 4096, 16384}) {
    for (const char* text : {"dense/ar", "resa:b16p0.1f0/ar", "resa:b32p0.05f0/ar",
                             "dense/d7k1n8/bfs/c1/F*/draft=resa:b16p0.1"}) {
      const Strategy strategy = Strategy::parse(text);
      PointMeasurement m;
      m.key = {.workload = WorkloadKind::kStep,
               .model = "dense",
               .pair = pair,
               .regime = "prose",
               .split = "calibration",
               .strategy = text,
               .dtype = fit.dtype,
               .backend = Backend::kCuda,
               .cache_state = CacheState::kAsIs,
               .launch = fit.conditions.launch,
               .context_len = context,
               .num_queries = strategy.draft.nodes};
      m.time_ns = {1.4e3 * us(before, text, context)};
      m.ranges.push_back({.path = "linear", .launches = 1});
      steps.push_back(m);
    }
  }
  // A step of NSA is of another target.
  steps.push_back(steps.front());
  steps.back().key.strategy = "nsa/ar";
  CHECK(use_pair_steps(steps, own, fit) == 12);
  CHECK(fit.steps_pair == pair);
  CHECK(fit.steps_of("/models/dense") == 12);
  for (const char* text :
       {"dense/ar", "resa:b16p0.1f0/ar", "dense/d7k1n8/bfs/c1/F*/draft=resa:b16p0.1",
        "dense/d15k1n16/bfs/c1/F*/draft=resa:b16p0.1"}) {
    CAPTURE(text);
    CHECK(us(fit, text, 4096) == Approx(1.4 * us(before, text, 4096)).epsilon(0.08));
  }
  std::string reason;
  const Strategy drafts = Strategy::parse("dense/d7k1n8/bfs/c1/F*/draft=resa:b16p0.1");
  REQUIRE(system_evidence(drafts, before, 4096, reason));
  CHECK(!system_evidence(drafts, before, 4096, reason)->whole_steps);
  CHECK(system_evidence(drafts, fit, 4096, reason)->whole_steps);
}

TEST_CASE("rectification costs what a dense pass costs, by its period") {
  FittedModel fit = both().model;
  fit.lent_shares = {.lender = "another pair", .rows = {}};
  for (const char* p : {"0.9", "0.99"}) {
    fit.lent_shares.rows.push_back({.strategy = "specattn:p" + std::string(p) + "/d7k1n8/bfs/c1/F*",
                                    .share = {p == std::string("0.9") ? 0.4 : 0.7, 0.3, 0.8},
                                    .counted = 1000});
  }
  const LlmShape target = named_llm_shape("nsa-1b");
  const auto us = [&](const char* text) {
    return predicted_step_us(fit, h200(), target, Strategy::parse(text), 16384);
  };
  const double never = us("resa:b16p0.1f0/ar");
  const double seldom = us("resa:b16p0.1f128/ar"), often = us("resa:b16p0.1f16/ar");
  CHECK(never < seldom);
  CHECK(seldom < often);
  // A pass reads at least the weights once: 2.5 GB at less than the bus's rate.
  CHECK(16.0 * (often - never) > 2.4e9 / h200().raw_bandwidth() * 1e6);
  CHECK(us("specattn:p0.9/d7k1n8/bfs/c1/F*") < us("specattn:p0.99/d7k1n8/bfs/c1/F*"));
}
