// Samplers by vocabulary, dtype, sequences and cuts, joined to the H100's campaign: every goal is
// met, and whole configurations that a fit had not seen are predicted.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/analyse/fit/goals.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/analyse/fit/system_points.h"
#include "engine/analyse/fit/system_predictor.h"
#include "tests/support/shipped_points.h"

using namespace versieve;
using namespace versieve::engine;

namespace {

const char* const kDevice = "NVIDIA H100 80GB HBM3";

const std::vector<PointMeasurement>& joined() {
  static const std::vector<PointMeasurement> all = [] {
    std::vector<PointMeasurement> points = test::shipped_points("h100.db", kDevice);
    const auto& sampled = test::shipped_points("h100-sampled.db", kDevice);
    points.insert(points.end(), sampled.begin(), sampled.end());
    return points;
  }();
  return all;
}

FitReport fitted(const std::vector<PointMeasurement>& points) {
  return fit_cost_model(points, kDevice, *hardware_for_device(kDevice), {},
                        {.leave_out_regimes = false});
}

struct Missed {
  std::vector<double> time, bytes;
};

// Points of chains' samplers that `is` holds of, by a fit that had none of them.
template <class Is>
Missed missed_without(const Is& is) {
  const auto left_out = [&](const PointMeasurement& m) {
    return m.key.workload == WorkloadKind::kSampling && is(m);
  };
  std::vector<PointMeasurement> kept, out;
  for (const PointMeasurement& m : joined()) {
    (left_out(m) ? out : kept).push_back(m);
  }
  const FittedModel model = fitted(kept).model;
  Missed missed;
  for (const FitPoint& p : system_points(out).points) {
    const SystemPrediction predicted =
        predict_system(p, *hardware_for_device(kDevice), model.parameters(), model.system_time);
    if (p.time_us) {
      missed.time.push_back(std::abs(predicted.time_us / *p.time_us - 1.0));
    }
    if (p.dram_bytes && *p.dram_bytes >= 1e6) {
      missed.bytes.push_back(std::abs(predicted.dram_bytes / *p.dram_bytes - 1.0));
    }
  }
  return missed;
}

}  // namespace

TEST_CASE("a fit to the H100's campaign and its samplers together meets the goals of the campaign") {
  const FitReport report = fitted(joined());
  for (const Goal& goal : goals_of(report)) {
    CAPTURE(goal.what, goal.measured);
    CHECK((goal.met || goal.what == test::kMissedGoal));
  }
  CHECK(*report.system_latency.median_ape < 0.03);
  CHECK(*report.system_latency.p90_ape < 0.11);
  CHECK(*report.system_dram.median_ape < 0.02);
  CHECK(*report.system_dram.p90_ape < 0.08);
}

TEST_CASE("samplers of a vocabulary or a batch that nobody measured are predicted from others") {
  const Missed vocabulary =
      missed_without([](const PointMeasurement& m) { return m.key.context_len == 151936; });
  REQUIRE(vocabulary.time.size() == 70);
  CHECK(*median(vocabulary.time) < 0.06);
  CHECK(*quantile(vocabulary.time, 0.9) < 0.15);
  CHECK(*median(vocabulary.bytes) < 0.04);
  const Missed batch = missed_without(
      [](const PointMeasurement& m) { return m.key.strategy.find("/b4") != std::string::npos; });
  REQUIRE(batch.time.size() == 40);
  CHECK(*median(batch.time) < 0.08);
  CHECK(*quantile(batch.time, 0.9) < 0.18);
  CHECK(*median(batch.bytes) < 0.03);
}
