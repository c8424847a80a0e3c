// A fit that begins at another machine's: the shipped databases of an H200 and of an H100 each
// stand for a machine of which a survey alone was measured, with the other's campaign as prior.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <set>

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/goals.h"
#include "engine/analyse/fit/machine_prior.h"
#include "engine/analyse/fit/predictor.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/measure/sweep/sweep.h"
#include "model/plan/planner.h"
#include "model/words/error.h"
#include "tests/support/shipped_points.h"
#include "tests/support/synthetic_points.h"
#include "tests/support/temp_folder.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

struct Machine {
  const char *file, *device, *key;
  const HardwareSpec& hardware() const { return hardware_by_key(key); }
};
constexpr Machine kH200{"h200.db", "NVIDIA H200", "h200-sxm"};
constexpr Machine kH100{"h100.db", "NVIDIA H100 80GB HBM3", "h100-sxm"};

using Points = std::vector<PointMeasurement>;

// Each point of the survey once, and the machine's own rates.
Points survey_of(const Points& all) {
  std::set<std::string> wanted;
  for (const PointKey& key :
       sweep_from_json(std::string(built_in_sweep("survey")), "survey", Backend::kCuda).points) {
    wanted.insert(key_text(key));
  }
  Points out;
  for (const PointMeasurement& m : all) {
    if (m.key.workload == WorkloadKind::kMachine || wanted.erase(key_text(m.key)) > 0) {
      out.push_back(m);
    }
  }
  return out;
}

FitReport fitted(const Points& points, const Machine& machine, const FittedModel* prior) {
  return fit_cost_model(points, machine.device, machine.hardware(), {},
                        {.leave_out_regimes = false, .prior = prior});
}

// Nothing of a prior is held out: it is not what is judged.
const FittedModel& whole_campaign(const Machine& machine) {
  return test::shipped_fit(machine.file, machine.device, 0.0).model;
}

struct Misses {
  std::vector<double> attention, steps;
};

// Of all points whose keys are not among the seen ones.
Misses misses(const FittedModel& model, const Machine& machine, const Points& all,
              const Points& seen) {
  std::set<std::string> keys;
  for (const PointMeasurement& m : seen) {
    keys.insert(key_text(m.key));
  }
  std::map<std::string, std::int64_t> skipped;
  const HardwareSpec priced =
      model.priced_on(measured_machine(machine.hardware(), all, machine.device, skipped));
  const Calibration calibration = calibration_of(model);
  const FitPoints points = fit_points(all, 0.0);
  Misses out;
  for (const FitPoint& p : points.points) {
    if (p.time_us && keys.count(key_text(p.key)) == 0) {
      (p.key.workload == WorkloadKind::kStep ? out.steps : out.attention)
          .push_back(std::abs(predict(p, priced, calibration).time_us / *p.time_us - 1.0));
    }
  }
  return out;
}

double step_us(const FittedModel& model, const Machine& machine) {
  return predicted_step_us(model, machine.hardware(), named_llm_shape("nsa-1b"),
                           Strategy::parse("nsa/d6k8n64/bfs/c8e/F*"), 8192);
}

}  // namespace

TEST_CASE(
    "on top of another machine's campaign a survey predicts what a campaign of its own would") {
  for (const bool forth : {true, false}) {
    const Machine& known = forth ? kH200 : kH100;
    const Machine& own = forth ? kH100 : kH200;
    const Points& all = test::shipped_points(own.file, own.device);
    const FittedModel& prior = whole_campaign(known);
    const Points survey = survey_of(all);
    const FitReport report = fitted(survey, own, &prior);
    const FittedModel& model = report.model;
    REQUIRE(model.prior);
    CHECK(model.prior->device == known.device);
    CHECK(model.prior->points == prior.points);
    CHECK(model.points == 110);
    CAPTURE(report.points_holdout, *report.latency.median_ape, *report.latency.p90_ape,
            *report.unseen_coverage_90, *report.least_kendall_tau, *report.worst_regret);
    CHECK(report.points_holdout > 20);
    CHECK(*report.latency.median_ape < 0.03);  // of its own points, held out
    CHECK(*report.latency.p90_ape < 0.09);
    CHECK(*report.worst_regret < 0.02);
    const Misses on_top = misses(model, own, all, survey);
    const Misses alone = misses(fitted(survey, own, nullptr).model, own, all, survey);
    CAPTURE(own.device, on_top.attention.size(), *median(on_top.attention),
            *quantile(on_top.attention, 0.9), *median(on_top.steps), *median(alone.attention),
            *quantile(alone.attention, 0.9), *median(alone.steps));
    CHECK(on_top.attention.size() > 1500);
    CHECK(*median(on_top.attention) < 0.03);
    CHECK(*quantile(on_top.attention, 0.9) < 0.09);
    CHECK(*median(on_top.steps) < 0.03);
    CHECK(*median(alone.attention) > 2.0 * *median(on_top.attention));
    CHECK(*quantile(alone.attention, 0.9) > 3.0 * *quantile(on_top.attention, 0.9));

    // What the survey does not measure is the prior's: the other systems, as much wider as carrying
    // them makes it, and whose tokens a step there are.
    REQUIRE(model.system("decode resa") != nullptr);
    CHECK(model.system("decode resa")->log_latency ==
          Approx(prior.system("decode resa")->log_latency + 0.06));
    CHECK(model.acceptance.pair == prior.acceptance.pair);

    test::TempFolder folder;
    const std::string path = (folder.path() / "fit.json").string();
    std::ofstream(path) << fit_json(report);
    const FittedModel read = read_fit(path);
    CHECK(step_us(read, own) == Approx(step_us(model, own)).epsilon(1e-9));
    CHECK(fit_text(report).find("on top of a fit to " + std::to_string(prior.points) +
                                " points of " + known.device) != std::string::npos);

    // A fit on top of such a fit: scales multiply, and nothing is left to correct.
    const FittedModel again = fitted(survey, own, &model).model;
    CHECK(again.prior->scale.read == Approx(model.prior->scale.read));
    CHECK(step_us(again, own) == Approx(step_us(model, own)).epsilon(0.02));
  }
}

TEST_CASE(
    "a card that nothing shipped was measured on is predicted from its survey and its kind's fit") {
  const FittedModel& of_h200 = whole_campaign(kH200);
  const FittedModel of_h100 =
      fit_cost_model(test::shipped_points(kH100.file, kH100.device), kH100.device, kH100.hardware(),
                     {}, {.holdout = 0.0, .leave_out_regimes = false, .prior = &of_h200})
          .model;
  const Points survey = test::shipped_points("h100-survey.db", kH100.device);
  const auto judged = [&](const FittedModel& prior, double median, double ninetieth) {
    const FitReport report = fitted(survey, kH100, &prior);
    CAPTURE(prior.device, *report.latency.median_ape, *report.latency.p90_ape);
    CHECK(report.points_holdout > 20);
    CHECK(*report.latency.median_ape < median);
    CHECK(*report.latency.p90_ape < ninetieth);
    CHECK(*report.least_kendall_tau > 0.9);
  };
  judged(of_h200, 0.03, 0.09);
  judged(of_h100, 0.015, 0.045);
}

TEST_CASE("an H100's campaign on top of an H200's meets the goals that alone it misses") {
  const FittedModel& prior = whole_campaign(kH200);
  const FitReport report = fitted(test::shipped_points(kH100.file, kH100.device), kH100, &prior);
  for (const Goal& goal : goals_of(report)) {
    CAPTURE(goal.what, goal.wanted, goal.measured);
    CHECK((goal.met || goal.what == test::kMissedGoal));
  }
  CHECK(*report.latency.p90_ape < 0.06);         // 0.083 alone
  CHECK(*report.system_latency.p90_ape < 0.10);  // 0.117
}

TEST_CASE("points that agree with the prior leave it as it is; a bias of theirs is learned") {
  const Points of_h200 = synthetic::joined(synthetic::attention_points({}, kH200.hardware()),
                                           synthetic::step_points({}, kH200.hardware()));
  const FittedModel prior = fitted(of_h200, kH200, nullptr).model;
  const double before = step_us(prior, kH200);
  CHECK(step_us(fitted(of_h200, kH200, &prior).model, kH200) == Approx(before).epsilon(0.01));
  Points slower = of_h200;
  for (PointMeasurement& m : slower) {
    for (double& ns : m.time_ns) {
      ns *= 1.2;
    }
  }
  CHECK(step_us(fitted(slower, kH200, &prior).model, kH200) == Approx(1.2 * before).epsilon(0.03));
}

TEST_CASE("a prior of another dtype is refused in a sentence") {
  const Points points = synthetic::attention_points({}, kH200.hardware());
  FittedModel prior = fitted(points, kH200, nullptr).model;
  prior.dtype = Dtype::kF32;
  try {
    fitted(points, kH200, &prior);
    FAIL("accepted");
  } catch (const Error& e) {
    CHECK(e.code() == ExitCode::kAnswerNo);
    CHECK(std::string(e.what()) ==
          "the prior is a fit to points of NVIDIA H200 in f32, these points are in bf16");
  }
}
