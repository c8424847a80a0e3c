// How few points will do: the cost model fitted to the sweep `survey` alone, of each shipped
// database, against all its other points; and against the plan of the whole fit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "engine/analyse/fit/cost_fit.h"
#include "engine/analyse/fit/machine_prior.h"
#include "engine/analyse/fit/predictor.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/measure/sweep/sweep.h"
#include "model/plan/planner.h"
#include "tests/support/shipped_points.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const char* const kDevice = "NVIDIA H200";

const HardwareSpec& h200() {
  return hardware_by_key("h200-sxm");
}

std::set<std::string> surveyed_keys() {
  std::set<std::string> keys;
  for (const PointKey& key :
       sweep_from_json(std::string(built_in_sweep("survey")), "survey", Backend::kCuda).points) {
    keys.insert(key_text(key));
  }
  return keys;
}

// Of the survey, of the machine's own rates, of acceptance.
std::vector<PointMeasurement> few(const std::vector<PointMeasurement>& all) {
  const std::set<std::string> keys = surveyed_keys();
  std::vector<PointMeasurement> out;
  for (const PointMeasurement& m : all) {
    if (m.key.workload == WorkloadKind::kMachine || m.key.workload == WorkloadKind::kAcceptance ||
        keys.count(key_text(m.key)) > 0) {
      out.push_back(m);
    }
  }
  return out;
}

FittedModel fitted(const std::vector<PointMeasurement>& points) {
  return fit_cost_model(points, kDevice, h200(), {}, {.leave_out_regimes = false}).model;
}

// Accepted tokens a second of a strategy in a bucket, by that fit.
double throughput(const FittedModel& fit, const Strategy& s, const ContextBucket& bucket) {
  double us = 0.0;
  for (std::int64_t i = 0; i < kBucketSamples; ++i) {
    us += predicted_step_us(fit, h200(), named_llm_shape("nsa-1b"), s, sampled_context(bucket, i)) /
          static_cast<double>(kBucketSamples);
  }
  return accepted_tokens(fit.acceptance, s, bucket.low, bucket.high).mean / us;
}

struct Misses {
  std::vector<double> attention, steps, bytes;
};

// Cold recorded points of the planned geometry in the fused form that the survey does not have.
Misses misses_of_the_rest(const std::vector<PointMeasurement>& all, const std::string& device) {
  std::map<std::string, std::int64_t> skipped;
  const HardwareSpec machine = measured_machine(*hardware_for_device(device), all, device, skipped);
  const FitPoints points = fit_points(all, 0.0);
  const std::set<std::string> keys = surveyed_keys();
  std::vector<const FitPoint*> seen;
  std::vector<const FitPoint*> rest;
  for (const FitPoint& p : points.points) {
    const bool planned = !p.conditions.warm && p.key.model == "nsa-1b" &&
                         p.conditions.launch == LaunchMode::kGraph &&
                         p.shape.form == NsaForm::kFused;
    if (keys.count(key_text(p.key)) > 0) {
      seen.push_back(&p);
    } else if (planned) {
      rest.push_back(&p);
    }
  }
  const Calibration calibration =
      calibrate(seen, machine, initial_parameters(), {.iterations = 60});
  Misses out;
  for (const FitPoint* p : rest) {
    const Prediction predicted = predict(*p, machine, calibration);
    if (p->time_us) {
      (p->key.workload == WorkloadKind::kStep ? out.steps : out.attention)
          .push_back(std::abs(predicted.time_us / *p->time_us - 1.0));
    }
    if (p->dram_bytes && *p->dram_bytes >= kLeastJudgedBytes) {
      out.bytes.push_back(std::abs(predicted.dram_bytes / *p->dram_bytes - 1.0));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a survey of 110 points predicts the other nine hundred") {
  const std::set<std::string> keys = surveyed_keys();
  CHECK(keys.size() == 110);
  struct Device {
    const char *file, *name;
    double attention, ninetieth;  // error allowed, median and 90th percentile
  };
  for (const auto& [file, device, attention, ninetieth] :
       {Device{"h200.db", kDevice, 0.055, 0.17},
        Device{"h100.db", "NVIDIA H100 80GB HBM3", 0.065, 0.21}}) {
    const std::vector<PointMeasurement>& all = test::shipped_points(file, device);
    std::set<std::string> found;
    for (const PointMeasurement& m : all) {
      found.insert(key_text(m.key));
    }
    CHECK(std::includes(found.begin(), found.end(), keys.begin(), keys.end()));
    const Misses misses = misses_of_the_rest(all, device);
    CAPTURE(device, misses.attention.size(), *median(misses.attention),
            *quantile(misses.attention, 0.9), *median(misses.steps), *median(misses.bytes),
            *quantile(misses.bytes, 0.9));
    CHECK(misses.attention.size() > 900);
    CHECK(misses.steps.size() >= 6);
    CHECK(*median(misses.attention) < attention);
    CHECK(*quantile(misses.attention, 0.9) < ninetieth);
    CHECK(*median(misses.steps) < 0.03);
    CHECK(*median(misses.bytes) < 0.02);
    CHECK(*quantile(misses.bytes, 0.9) < 0.08);
  }
}

TEST_CASE("a plan by the survey chooses nearly what the whole campaign's plan chooses") {
  const std::vector<PointMeasurement>& all = test::shipped_points("h200.db", kDevice);
  const FittedModel& whole = test::shipped_fit("h200.db", kDevice, 0.2).model;
  const FittedModel part = fitted(few(all));
  const LlmShape target = named_llm_shape("nsa-1b");
  const PlanTable by_whole = plan(whole, h200(), target, {});
  const PlanTable by_part = plan(part, h200(), target, {});
  double sum = 0.0, count = 0.0;
  for (std::size_t b = 0; b < by_part.buckets.size(); ++b) {
    for (const PrecisionClass precision : by_part.classes) {
      const std::int64_t bucket = static_cast<std::int64_t>(b);
      const std::vector<const PlanEntry*> best = entries_of(by_whole, bucket, precision);
      const std::vector<const PlanEntry*> chosen = entries_of(by_part, bucket, precision);
      REQUIRE(!best.empty());
      REQUIRE(!chosen.empty());
      const double kept = throughput(whole, chosen[0]->evaluation.strategy, by_part.buckets[b]) /
                          throughput(whole, best[0]->evaluation.strategy, by_part.buckets[b]);
      CAPTURE(b, name_of(precision), chosen[0]->evaluation.strategy.text(), kept);
      CHECK(kept > 0.97);
      sum += kept;
      count += 1.0;
    }
  }
  CHECK(sum / count > 0.99);
}
