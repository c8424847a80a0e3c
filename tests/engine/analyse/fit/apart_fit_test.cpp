// Steps of a pair whose draft is one launch, beside steps of others.
#include "engine/analyse/fit/apart_fit.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

#include "model/plan/planner.h"
#include "tests/support/shipped_points.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;
using synthetic::h200;
using synthetic::joined;

namespace {

constexpr FitOptions kQuick = {.leave_out_regimes = false};

}  // namespace

TEST_CASE(
    "steps of a pair whose draft is one launch stand apart and move next to nothing of the "
    "others") {
  synthetic::Plan plan;
  plan.form = NsaForm::kFused;
  plan.step_launch = LaunchMode::kGraph;
  const auto others =
      joined(synthetic::attention_points(plan, h200()), synthetic::step_points(plan, h200()));
  plan.model = "demo";
  plan.device_ranges = true;
  plan.parameters[index_of(LaunchKind::kDraftLevels, KindParameter::kRoundUs)] = 20.0;
  plan.factor_above = 0;  // a law of theirs alone
  plan.time_factor = 1.2;
  const auto small = synthetic::step_points(plan, h200());
  const FitReport before = fit_cost_model(others, "NVIDIA H200", h200(), {"run"}, kQuick);
  const FitReport both =
      fit_cost_model(joined(others, small), "NVIDIA H200", h200(), {"run"}, kQuick);
  CHECK(before.apart.before.points == 0);
  CHECK(both.apart.geometry == "demo");
  CHECK(both.apart.before.points == 28);
  CHECK(*both.apart.before.median_ape > 0.15);
  CHECK(*both.apart.latency.median_ape < 0.05);
  CHECK(before.model.small_pair_nodes == 0);
  CHECK(both.model.small_pair_nodes == 128);
  CHECK(both.model.points == before.model.points);
  CHECK(both.model.geometry == "nsa-1b");
  // A plan for either target quotes its own steps.
  CHECK(both.model.steps_of("nsa-1b") == before.model.steps_of("nsa-1b"));
  CHECK(before.model.steps_of("demo") == 0);
  CHECK(both.model.steps_of("demo") == 28);
  CHECK(*both.latency.median_ape == Approx(*before.latency.median_ape).margin(0.002));
  const auto base_of = [](const FitReport& report, LaunchKind kind) {
    return report.model.estimates[index_of(kind, KindParameter::kBaseUs)];
  };
  // The launches around a tree are any pair's, and their ranges state what they take; of the
  // others' steps they have none, and a whole step said anything.
  for (const LaunchKind kind : {LaunchKind::kFinishTree, LaunchKind::kAcceptTree}) {
    const double planted_us = plan.parameters[index_of(kind, KindParameter::kBaseUs)] +
                              1e-3 * plan.parameters[index_of(kind, KindParameter::kStepNs)];
    const ParameterEstimate base = base_of(both, kind);
    const ParameterEstimate step = both.model.estimates[index_of(kind, KindParameter::kStepNs)];
    CHECK(base.informed);
    CHECK(base.value + 1e-3 * step.value == Approx(1.2 * planted_us).epsilon(0.1));
  }
  // All else hardly moves.
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    const ParameterEstimate& was = before.model.estimates[i];
    const std::string name = parameter_table()[i].name;
    const bool seen_there = name.find("_tree.") != std::string::npos ||
                            name.starts_with("commit_path") || name.starts_with("draft_levels");
    if (!seen_there && was.informed && was.high < 1.2 * was.low) {
      CAPTURE(name);
      CHECK(both.model.estimates[i].value == Approx(was.value).epsilon(0.02));
    }
  }
  const ParameterEstimate& round =
      both.model.estimates[index_of(LaunchKind::kDraftLevels, KindParameter::kRoundUs)];
  CHECK(round.informed);
  CHECK(round.value == Approx(1.2 * 20.0).epsilon(0.1));

  // A step that is priced anew lies where it was measured.
  for (const PointMeasurement& m : small) {
    const double us = predicted_step_us(both.model, h200(), named_llm_shape("demo"),
                                        Strategy::parse(m.key.strategy), m.key.context_len);
    CAPTURE(m.key.strategy, m.key.context_len);
    if (m.key.num_queries > 1) {
      CHECK(us == Approx(m.time_ns[2] * 1e-3).epsilon(0.1));
    }
  }
}

TEST_CASE("plain steps of the demo pair are predicted from the few that were measured") {
  for (const auto& [file, device, key] :
       {std::array{"h200.db", "NVIDIA H200", "h200-sxm"},
        std::array{"h100.db", "NVIDIA H100 80GB HBM3", "h100-sxm"}}) {
    const std::vector<PointMeasurement>& points = test::shipped_points(file, device);
    const HardwareSpec& machine = hardware_by_key(key);
    const FittedModel& model = test::shipped_fit(file, device, 0.2).model;
    CHECK(model.small_pair_nodes >= 64);
    std::int64_t plain = 0;
    for (const PointMeasurement& m : points) {
      if (m.key.model == "demo" && m.key.strategy == "nsa/ar" &&
          m.key.workload == WorkloadKind::kStep) {
        CAPTURE(device, m.key.context_len);
        const double us = predicted_step_us(model, machine, named_llm_shape("demo"),
                                            Strategy::parse("nsa/ar"), m.key.context_len);
        std::vector<double> times = m.time_ns;
        std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
        CHECK(us == Approx(1e-3 * times[times.size() / 2]).epsilon(0.03));
        ++plain;
      }
    }
    CHECK(plain == 3);
  }
}
