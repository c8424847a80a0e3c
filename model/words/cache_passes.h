// What makes work cold or warm: the one rule for whoever times, counts or simulates it.
#pragma once

#include <cstdint>

namespace versieve {

// Times the L2 that pass between two uses of a buffer, so that nothing of it is there.
inline constexpr std::int64_t kColdPasses = 3;
// Runs of warm work in one sample, so that what a sample itself costs vanishes.
inline constexpr std::int64_t kWarmRuns = 8;

}  // namespace versieve
