// A fit of one machine held against another's measured points: the shipped databases of an H200 and
// of an H100, whose SMs are the same and whose memories are not; and what cannot be carried.
#include "engine/analyse/fit/carry_over.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/analyse/fit/machine_prior.h"
#include "model/plan/planner.h"
#include "model/words/error.h"
#include "tests/support/shipped_points.h"
#include "tests/support/synthetic_points.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const char* const kH100 = "NVIDIA H100 80GB HBM3";
const char* const kH200 = "NVIDIA H200";

const HardwareSpec& h100() {
  return hardware_by_key("h100-sxm");
}
const HardwareSpec& h200() {
  return hardware_by_key("h200-sxm");
}

const std::vector<PointMeasurement>& points_of_h100() {
  return test::shipped_points("h100.db", kH100);
}

FittedModel fitted(const std::vector<PointMeasurement>& points, const char* device,
                   const HardwareSpec& hardware) {
  return fit_cost_model(points, device, hardware, {}, {.leave_out_regimes = false}).model;
}

const FittedModel& fit_of_h200() {
  return test::shipped_fit("h200.db", kH200, 0.2).model;
}

const CarriedErrors& errors_of(const CarriedFit& fit, const std::string& points) {
  const auto found = std::find_if(fit.errors.begin(), fit.errors.end(),
                                  [&](const CarriedErrors& e) { return e.points == points; });
  REQUIRE(found != fit.errors.end());
  return *found;
}

void check_within(const ErrorSummary& errors, double median, double ninetieth) {
  CAPTURE(errors.points, *errors.median_ape, *errors.p90_ape);
  CHECK(*errors.median_ape < median);
  CHECK(*errors.p90_ape < ninetieth);
}

// Accepted tokens a second of a strategy in a bucket on that machine, by that fit.
double throughput(const FittedModel& fit, const HardwareSpec& hardware, const Strategy& s,
                  const ContextBucket& bucket, double tokens) {
  double us = 0.0;
  for (std::int64_t i = 0; i < kBucketSamples; ++i) {
    us +=
        predicted_step_us(fit, hardware, named_llm_shape("nsa-1b"), s, sampled_context(bucket, i)) /
        static_cast<double>(kBucketSamples);
  }
  return tokens / us;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The cost model's own answers on that machine, with noise.
std::vector<PointMeasurement> synthetic_points(const HardwareSpec& hardware) {
  return synthetic::attention_points({}, hardware);
}

}  // namespace

TEST_CASE("a fit of the H200 predicts what was measured on an H100") {
  const CarryReport report = carry_over(fit_of_h200(), points_of_h100(), kH100, h100());
  CHECK(report.points > 1700);
  REQUIRE(report.fits.size() == 2);
  const CarriedFit& by_sheet = report.fits[0];
  const CarriedFit& by_rates = report.fits[1];
  CHECK(!by_sheet.rates);
  CHECK(by_rates.rates);
  check_within(errors_of(by_sheet, "attention, cold").latency, 0.04, 0.13);
  check_within(errors_of(by_sheet, "steps").latency, 0.06, 0.10);
  check_within(errors_of(by_rates, "attention, cold").latency, 0.04, 0.13);
  check_within(errors_of(by_rates, "steps").latency, 0.025, 0.07);
  check_within(errors_of(by_rates, "all").dram_bytes, 0.03, 0.12);
  for (const CarriedFit& fit : report.fits) {
    CAPTURE(fit.rates, *fit.width.covered_90, *fit.width.needed, *fit.ranking.tau,
            *fit.ranking.worst_regret);
    CHECK(*fit.width.covered_90 > 0.88);
    CHECK(*fit.width.needed <= fit.width.added);
    CHECK(*fit.ranking.tau > 0.95);
    CHECK(*fit.ranking.mean_regret < 0.01);
    CHECK(*fit.ranking.worst_regret < 0.10);
    // The other systems, each in a row of its own, all in the last.
    CAPTURE(*fit.system_width.covered_90, *fit.system_width.needed, fit.system_width.added);
    CHECK(fit.systems.size() == 13);
    CHECK(fit.systems.back().points == "other systems");
    check_within(fit.systems.back().latency, 0.07, 0.15);
    check_within(fit.systems.back().dram_bytes, 0.02, 0.07);
    CHECK(*fit.system_width.covered_90 > 0.90);
    CHECK(*fit.system_width.needed < fit.system_width.added);
    // Steps of 1 to 128 requests, a row a number, all in the last.
    REQUIRE(fit.batches.size() == 9);
    CHECK(fit.batches.back().points == "many requests");
    CHECK(fit.batches.back().latency.points == 143);
    check_within(fit.batches.back().latency, 0.06, 0.14);
    check_within(fit.batches.back().dram_bytes, 0.03, 0.13);
    CAPTURE(*fit.batch_width.covered_90, *fit.batch_width.needed);
    CHECK(*fit.batch_width.covered_90 > 0.90);
    CHECK(*fit.batch_width.needed <= fit.batch_width.added);
  }
  CHECK(report.batch_points == 174);
  CHECK(report.system_points == 183);  // what this machine has points of: no indexer's
  CHECK(by_rates.width.added < by_sheet.width.added);
  const nlohmann::json json = nlohmann::json::parse(carry_json(report));
  CHECK(json["points"] == report.points);
  CHECK(json["carried"][1]["kendall_tau"].get<double>() == *by_rates.ranking.tau);
  CHECK(json["system_points"] == report.system_points);
  const nlohmann::json others = json["carried"][0]["other_systems"];
  CHECK(others["errors"].size() == by_sheet.systems.size());
  CHECK(others["added_log_half_width"].get<double>() == by_sheet.system_width.added);
  const nlohmann::json many = json["carried"][1]["many_requests"];
  CHECK(many["errors"].size() == by_rates.batches.size());
  CHECK(many["added_log_half_width"].get<double>() == by_rates.batch_width.added);
  CHECK(has(carry_text(report), "by the rates that were measured there"));
}

TEST_CASE("a plan for the H100 by the H200's points chooses what one by its own would") {
  std::map<std::string, std::int64_t> skipped;
  const HardwareSpec measured = measured_machine(h100(), points_of_h100(), kH100, skipped);
  const FittedModel& own = test::shipped_fit("h100.db", kH100, 0.2).model;
  const FittedModel& carried = fit_of_h200();
  const LlmShape target = named_llm_shape("nsa-1b");
  FittedModel own_with_tokens = own;  // trees yield the same wherever they are verified
  own_with_tokens.acceptance = carried.acceptance;
  HardwareSpec there = measured;
  there.key = "h100-measured";  // its rates are used as those of a machine that is not the fit's
  const PlanTable by_own = plan(own_with_tokens, h100(), target, {});
  std::int64_t compared = 0;
  for (const HardwareSpec& known : {h100(), there}) {
    const PlanTable by_carried = plan(carried, known, target, {});
    for (std::size_t b = 0; b < by_carried.buckets.size(); ++b) {
      for (const PrecisionClass precision : by_carried.classes) {
        const std::int64_t bucket = static_cast<std::int64_t>(b);
        const std::vector<const PlanEntry*> best = entries_of(by_own, bucket, precision);
        const std::vector<const PlanEntry*> chosen = entries_of(by_carried, bucket, precision);
        if (best.empty() || chosen.empty() ||
            chosen[0]->evaluation.strategy.attention != AttentionMethod::kNsa) {
          continue;
        }
        const ContextBucket& range = by_carried.buckets[b];
        const auto predicted = [&](const Strategy& s) {
          return throughput(own, h100(), s, range,
                            accepted_tokens(carried.acceptance, s, range.low, range.high).mean);
        };
        const Strategy& first = chosen[0]->evaluation.strategy;
        const double kept = predicted(first) / predicted(best[0]->evaluation.strategy);
        CAPTURE(known.key, b, name_of(precision), first.text(), kept);
        CHECK(kept > 0.93);
        compared += 1;
      }
    }
  }
  CHECK(compared == 32);  // four classes in four ranges, by data sheet and by rates
}

TEST_CASE("what cannot be carried over is refused in a sentence") {
  const std::vector<PointMeasurement> points = synthetic_points(h200());
  const FittedModel model = fitted(points, kH200, h200());
  const auto refusal = [&](const std::vector<PointMeasurement>& measured, const char* device,
                           const HardwareSpec& hardware) {
    try {
      carry_over(model, measured, device, hardware);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::kAnswerNo);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(has(refusal(points, kH200, h200()), "the fit is of 'NVIDIA H200' itself"));
  CHECK(has(refusal({}, kH100, h100()), "no timed attention or step points of 'NVIDIA H100"));
  std::vector<PointMeasurement> others = synthetic_points(h100());
  for (PointMeasurement& m : others) {
    m.key.dtype = Dtype::kF32;
  }
  CHECK(has(refusal(others, kH100, h100()), "are in f32, the fit is of bf16"));
  // Without the machine's own rates the data sheet alone is judged; fused launches, which no point
  // of the fit has, are left out and counted.
  synthetic::Plan fused;
  fused.form = NsaForm::kFused;
  const std::vector<PointMeasurement> mixed =
      synthetic::joined(synthetic_points(h100()), synthetic::attention_points(fused, h100()));
  const CarryReport report = carry_over(model, mixed, kH100, h100());
  CHECK(report.fits.size() == 1);
  CHECK(report.points == static_cast<std::int64_t>(synthetic_points(h100()).size()));
  CHECK(report.skipped.at("of a form of attention that no point of the fit has") > 0);
  CHECK(has(carry_text(report), "no rates"));
  check_within(errors_of(report.fits[0], "all").latency, 0.03, 0.08);  // the same law, 2 % of noise
}
