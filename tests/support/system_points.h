// Points of the other systems that never happened, as synthetic_points.h: decode points and steps
// of dense targets, top-k.
#pragma once

#include "tests/support/synthetic_points.h"

namespace versieve::synthetic {

// dense, ReSA and SpecAttn over contexts 4K-256K, steps of the first two, top-k over lengths and
// rows.
std::vector<PointMeasurement> system_points(const Plan& plan, const HardwareSpec& hardware);
// The sweep `terms`: layers of ReSA in both forms over block sizes, ratios and contexts, passes
// over periods, whole steps and periods.
std::vector<PointMeasurement> sparse_term_points(const Plan& plan, const HardwareSpec& hardware);

}  // namespace versieve::synthetic
