// How well do fits predict what they have not seen: points left out one fold at a time, and whole
// regimes (all points of one context length, of one query count) left out together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/analyse/fit/fit_parts.h"
#include "engine/analyse/fit/predictor.h"

namespace versieve::engine {

// A point and what a fit without it says of it.
struct Unseen {
  const FitPoint* point = nullptr;
  Prediction prediction;
  int fold = -1;  // the one that was left out with it; none: held out from all folds

  std::optional<double> log_latency_error() const;  // |log(predicted / measured)|
  std::optional<double> log_dram_error() const;
};

enum class RegimeAxis { kContext, kQueries };

struct LeftOutRegime {
  RegimeAxis axis = RegimeAxis::kContext;
  std::int64_t value = 0;
  bool beyond = false;  // less or greater than all that the fit saw: such a prediction is refused
  std::vector<Unseen> points;
};

// A fit to some of the points of a whole fit; run beside others.
using PartFit = std::function<Calibration(const std::vector<const FitPoint*>& points)>;

// Every training point, by a fit to the points of the other folds.
std::vector<Unseen> predict_folds(const std::vector<const FitPoint*>& train,
                                  const HardwareSpec& hardware, const PartFit& part_fit, int folds,
                                  FitParts& parts);
// The values of the axis that can be left out: none when fewer than three were measured.
std::vector<std::int64_t> values_to_leave_out(const std::vector<const FitPoint*>& train,
                                              RegimeAxis axis);
// Every one of them, all points of it predicted by a fit to the training points of the others.
std::vector<LeftOutRegime> predict_left_out(const std::vector<const FitPoint*>& train,
                                            const std::vector<const FitPoint*>& held_out,
                                            RegimeAxis axis, const HardwareSpec& hardware,
                                            const PartFit& part_fit, FitParts& parts);

}  // namespace versieve::engine
