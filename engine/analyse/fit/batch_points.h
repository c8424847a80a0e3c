// Points of steps of many requests as a fit takes them: what was measured, and the launches that
// the model composes for it, once, as the fit to steps of one request prices them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/analyse/fit/fit_points.h"

namespace versieve::engine {

struct BatchPoint {
  FitPoint point;
  std::int64_t requests = 1;
  Regime regime;
  StepWork work;  // attention corrected by the fit's fields, without the terms of many requests
};

struct BatchPoints {
  std::vector<BatchPoint> points;               // sorted by key
  std::map<std::string, std::int64_t> skipped;  // reason -> points
};

bool is_batch_point(const PointMeasurement& m);
BatchPoints batch_points(const std::vector<PointMeasurement>& measured, const FittedModel& model);

}  // namespace versieve::engine
