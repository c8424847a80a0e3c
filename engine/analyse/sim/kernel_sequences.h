// The launches of a point of a kernel alone: top-k, a sampler, or what a machine's figures come
// from.
#pragma once

#include "engine/analyse/sim/simulated_run.h"

namespace versieve::engine {

// As the sweep runs them (engine/measure/sweep/kernel_point.h, machine_point.h): on copies of what
// is read, so many that `cold_bytes` pass between two uses of one, at most `most`. Throws
// Error(kUsage) for a text that is not of that workload.
std::vector<LaunchSequence> kernel_sequences(const PointKey& key, double cold_bytes,
                                             std::int64_t most);

}  // namespace versieve::engine
