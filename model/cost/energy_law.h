// What a step takes of energy: the power that the machine takes while it runs, and on top of that
// what a byte of DRAM and an operation cost. Three numbers, fitted to steps whose energy was
// sampled (kEnergyRange of model/words/range_counters.h); none can be below 0.
#pragma once

#include <cstdint>

#include "model/words/evaluation.h"

namespace versieve {

struct EnergyLaw {
  std::int64_t points = 0;  // 0: nobody sampled any, and nothing else here counts
  double watts = 0.0;
  double joules_per_byte = 0.0;
  double joules_per_flop = 0.0;
  // Of log joules, of steps whose number of requests the fit had not seen: standard deviation.
  double log_error = 0.0;
  std::int64_t most_requests = 0;  // at once, that were sampled

  bool sampled() const { return points > 0; }
  // Of one step, of all its requests. REQUIRES: sampled.
  double joules(const StepCost& step) const {
    return watts * 1e-6 * step.time_us + joules_per_byte * step.dram_bytes +
           joules_per_flop * step.flops;
  }
};

}  // namespace versieve
