// What trained pairs on real text say about accepted tokens a step: means of measured tuples by
// context, and a positional model a context range for the tuples that were not measured.
#pragma once

#include <vector>

#include "model/acceptance.h"
#include "model/measurement.h"

namespace versieve::engine {

// From the acceptance points among `measured`: those of the calibration split when there are any
// (the test split then stays unseen), of the pair with most points. Looping output counts by its
// teacher-forced mean, or not at all; imported points do not count. Empty when there are no such
// points.
AcceptanceModel fit_acceptance(const std::vector<PointMeasurement>& measured);

}  // namespace versieve::engine
