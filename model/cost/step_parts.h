// A predicted step looked into: each kind of launch with its time, its bytes and how far it is from
// moving those bytes alone.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "model/cost/cost_model.h"

namespace versieve {

// All launches of one kind in one part of a step; what the host waits for is one too.
struct StepPart {
  std::string name;  // the kernel's root word; "host waits"
  Phase phase = Phase::kOther;
  LayerKind layer = LayerKind::kNone;
  double launches = 0.0;
  double time_us = 0.0;     // that they add to the step, gaps between launches included
  double dram_bytes = 0.0;  // read and written
  double floor_us = 0.0;    // of moving those bytes at the rate of a cold read
  std::array<double, kBoundCount> bound_us{};  // time of launches bounded by each; launch = gaps
};
// What bounds most of its time.
Bound bottleneck_of(const StepPart& part);
const char* name_of(LayerKind layer);  // "refresh", "reuse", ""

// Adds `weight` times the launches of a step whose times are all `factor` of the closed form's.
void add_parts(const StepWork& step, const HardwareSpec& hardware, const CostParameters& parameters,
               const RunConditions& conditions, double weight, double factor,
               std::vector<StepPart>& parts);

}  // namespace versieve
