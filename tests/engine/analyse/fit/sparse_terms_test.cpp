// The terms of a sparse step: what scoring, selection, attending and the pass take comes back from
// points that have them apart, each judged by fits that had not seen the point or its whole value.
#include "engine/analyse/fit/sparse_terms.h"

#include <catch2/catch.hpp>

#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/goals.h"
#include "engine/analyse/fit/system_points.h"
#include "model/launches/resa_decode.h"
#include "tests/support/synthetic_points.h"
#include "tests/support/system_points.h"

using namespace versieve;
using namespace versieve::engine;
using synthetic::h200;
using synthetic::joined;

namespace {

// Scoring slower than a fit begins with, the pass faster.
synthetic::Plan planted() {
  synthetic::Plan plan;
  plan.form = NsaForm::kFused;
  plan.step_launch = LaunchMode::kGraph;
  CostParameters& p = plan.parameters;
  p[index_of(LaunchKind::kResaScore, KindParameter::kBaseUs)] = 6.0;
  p[index_of(LaunchKind::kDensePass, KindParameter::kBaseUs)] = 12.0;
  return plan;
}

std::vector<PointMeasurement> nsa_points() {
  return joined(synthetic::attention_points(planted(), h200()),
                synthetic::step_points(planted(), h200()));
}

FitReport fitted(const std::vector<PointMeasurement>& systems, bool leaves_out) {
  return fit_cost_model(joined(nsa_points(), systems), "NVIDIA H200", h200(), {"run"},
                        {.leave_out_regimes = leaves_out});
}

const FitReport& report() {
  static const FitReport instance =
      fitted(synthetic::sparse_term_points(planted(), h200()), /*leaves_out=*/false);
  return instance;
}

const SparseTermError& row(const FitReport& r, const std::string& term) {
  for (const SparseTermError& e : r.sparse_terms) {
    if (e.term == term && e.axis.empty()) {
      return e;
    }
  }
  throw std::runtime_error("no row " + term);
}

}  // namespace

TEST_CASE("what scoring and the pass take comes back, with an interval") {
  for (const auto& [kind, parameter] :
       {std::pair{LaunchKind::kResaScore, KindParameter::kBaseUs},
        std::pair{LaunchKind::kDensePass, KindParameter::kBaseUs}}) {
    const std::size_t i = index_of(kind, parameter);
    const ParameterEstimate& e = report().model.estimates[i];
    CAPTURE(parameter_table()[i].name, e.value, e.low, e.high);
    CHECK(e.informed);
    CHECK(e.value == Approx(planted().parameters[i]).epsilon(0.2));
    CHECK(e.low < e.value);
    CHECK(e.value < e.high);
    CHECK(e.high < 2.0 * e.low);
  }
}

TEST_CASE("the terms are judged one by one against their formula, of unseen points") {
  for (const char* term :
       {"key scoring", "selection", "attending", "pass", "layer of a step", "step with its pass"}) {
    const SparseTermError& e = row(report(), term);
    CAPTURE(term);
    CHECK(e.latency.points > 20);
    CHECK(*e.latency.median_ape < 0.05);
  }
  for (const char* term : {"key scoring", "attending", "pass", "layer of a step"}) {
    const SparseTermError& e = row(report(), term);
    CAPTURE(term, *e.of_formula);
    CHECK(e.dram_bytes.points > 10);
    CHECK(*e.dram_bytes.median_ape < 0.05);
    CHECK(*e.of_formula == Approx(1.0).epsilon(0.1));
    CHECK(*e.of_formula_least <= *e.of_formula);
    CHECK(*e.of_formula <= *e.of_formula_most);
  }
  const std::string text = fit_text(report());
  CHECK(text.find("terms of a sparse step") != std::string::npos);
  CHECK(fit_json(report()).find("counted_of_formula") != std::string::npos);
  std::int64_t goals = 0;
  for (const Goal& goal : goals_of(report())) {
    goals += goal.what == "latency, key scoring" || goal.what == "DRAM bytes, pass" ? 1 : 0;
  }
  CHECK(goals == 2);
}

TEST_CASE("whole values of block size, ratio, period and context can be left out") {
  const std::vector<TermRegime> regimes =
      term_regimes(system_points(synthetic::sparse_term_points(planted(), h200())).points);
  REQUIRE(regimes.size() == 3 + 4 + 5 + 5);
  std::int64_t beyond = 0;
  for (const TermRegime& r : regimes) {
    beyond += r.beyond ? 1 : 0;
  }
  CHECK(beyond == 4 * 2);
  // Points of one diagonal have no terms apart.
  CHECK(term_regimes(system_points(synthetic::system_points(planted(), h200())).points).empty());
  CHECK(fitted(synthetic::system_points(planted(), h200()), false).sparse_terms.empty());
}

TEST_CASE("a fit without a whole value predicts it") {
  const FitReport left = fitted(synthetic::sparse_term_points(planted(), h200()), true);
  std::int64_t judged = 0;
  for (const SparseTermError& e : left.sparse_terms) {
    if (!e.axis.empty() && !e.beyond && e.term != "selection") {
      CAPTURE(e.term, e.axis);
      CHECK(*e.latency.median_ape < 0.08);
      judged += 1;
    }
  }
  CHECK(judged >= 4 + 3 + 2 + 3);
}

TEST_CASE("the fused launch's phases add up to what it announces") {
  StepShape s{.target = named_llm_shape("dense-1b"), .context_len = 65536};
  s.dense = {.method = AttentionMethod::kResa, .whole_step = false};
  StepWork fused;
  add_resa_decode(s, 1.0, fused);
  double bytes = 0.0, launches = 0.0;
  for (const LaunchWork& work : fused) {
    CHECK(std::string(path_of(work.kind)) == "resa_decode");
    bytes += work.unique.total();
    launches += work.is_phase ? 0.0 : work.launches;
  }
  CHECK(launches == 1.0);
  CHECK(bytes == traffic::resa_decode({.num_heads = 32,
                                       .num_kv_heads = 8,
                                       .head_dim = 64,
                                       .context_len = 65536,
                                       .key_block = 16,
                                       .blocks = 4097,
                                       .active_blocks = 410,
                                       .element_bytes = 2})
                     .total());
  const StepCost cost =
      cost_of(fused, h200(), initial_parameters(), {.launch = LaunchMode::kGraph});
  CHECK(cost.launches == 1.0);
}
