// Campaigns of a test's own points on the CPU backend, and the ranges that their points hold.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "engine/measure/sweep/campaign.h"
#include "engine/measure/sweep/sweep.h"

namespace versieve::engine {

// Its points are timed `samples` times, without warming up.
inline SweepPlan cpu_plan(const std::string& grids, int samples = 2,
                          const PairId& pair = byte_pair()) {
  return sweep_from_json(R"({"name": "test", "timing": {"warm_up_s": 0, "fixed_samples": )" +
                             std::to_string(samples) + R"(}, "grids": )" + grids + "}",
                         "test", Backend::kCpu, pair);
}

inline std::vector<PointMeasurement> measured(const SweepPlan& plan,
                                              const CampaignOptions& options = {.threads = 2}) {
  std::vector<PointMeasurement> points;
  run_campaign(
      plan, plan.points, open_campaign(plan, Backend::kCpu), options,
      [&](const PointMeasurement& point) { points.push_back(point); },
      [](const CampaignProgress&) {});
  return points;
}

inline std::vector<PointMeasurement> measured(const std::string& grids) {
  return measured(cpu_plan(grids));
}

inline const RangeMeasurement& range_of(const PointMeasurement& point, const std::string& path) {
  for (const RangeMeasurement& range : point.ranges) {
    if (range.path == path) {
      return range;
    }
  }
  throw std::runtime_error("no range " + path);
}

}  // namespace versieve::engine
