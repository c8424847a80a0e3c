// Up to which batch a weight is paid for by its bytes: one of two bytes is read once a step and
// multiplied once a row, so that products turn from bandwidth to arithmetic at peak over bandwidth.
#pragma once

#include <cstdint>

#include "model/words/hardware.h"

namespace versieve {

// Rows of a step, all requests together.
inline double crossover_rows(const HardwareSpec& hardware) {
  return hardware.bf16_flops() / hardware.raw_bandwidth();
}
// Requests whose steps verify `nodes` nodes each, root included.
inline double crossover_requests(const HardwareSpec& hardware, std::int64_t nodes) {
  return crossover_rows(hardware) / static_cast<double>(nodes);
}

}  // namespace versieve
