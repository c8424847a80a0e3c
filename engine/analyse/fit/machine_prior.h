// What the micro-benchmarks of a machine (sweep `calibrate`) say before any step is looked at:
// where the parameters that they inform are to be expected, and what launches cannot exceed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/cost/cost_parameters.h"
#include "model/words/hardware.h"
#include "model/words/measurement.h"

namespace versieve::engine {

struct ParameterPrior {
  std::size_t parameter = 0;  // index into CostParameters
  double mean = 0.0;
  double log_sd = 0.0;
  double high = 0.0;  // a bound below the table's; 0: none
};

// The machine with the figures of the points of WorkloadKind::kMachine among `measured`, where
// there are any, in the place of its own. Figures that it cannot have are left out and counted in
// `skipped` with the reason.
HardwareSpec measured_machine(const HardwareSpec& hardware,
                              const std::vector<PointMeasurement>& measured,
                              const std::string& device,
                              std::map<std::string, std::int64_t>& skipped);
// Reads, L2 and products: means. A launch after another: bounds of the gaps, which are part of it.
std::vector<ParameterPrior> machine_priors(const HardwareSpec& hardware);

}  // namespace versieve::engine
