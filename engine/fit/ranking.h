// Does a prediction choose as the measurements do? Points that a planner would choose between are
// equal but for strategy and queries; they are ranked by verified queries a second. Acceptance
// enters only the plan.
#pragma once

#include <optional>
#include <vector>

#include "model/measurement.h"

namespace versieve::engine {

struct RankedPoint {
  PointKey key;
  double predicted_us = 0.0, measured_us = 0.0;
};

// Empty where no group has an order.
struct Ranking {
  std::optional<double> mean_tau;      // Kendall's, over groups
  std::optional<double> least_tau;     // of groups of at least five points
  std::optional<double> mean_regret;   // what the predicted first choice loses to the measured one
  std::optional<double> worst_regret;  // of all groups
};

Ranking rank(const std::vector<RankedPoint>& points);

}  // namespace versieve::engine
