// Runs a launch's CTAs on the SMs: in waves of as many as fit, each next one where a place falls
// free, and within a CTA step after step as its loads arrive. Deterministic: events of one cycle
// go in the order of the places.
#pragma once

#include <cstdint>

#include "engine/analyse/sim/memory_system.h"
#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

struct ScheduledLaunch {
  std::int64_t resident_ctas = 0;  // at most, on all SMs together
  double waves = 0.0;
  double end_cycle = 0.0;
};

// Starts at cycle `begin`. Throws Error(kAnswerNo) for a CTA that no SM can hold.
ScheduledLaunch run_launch(const LaunchTrace& launch, const MemoryMachine& machine,
                           MemorySystem& memory, double begin);

// Places for clusters of that many CTAs: a cluster lies within one GPC.
std::int64_t resident_clusters(const MemoryMachine& machine, std::int64_t cluster,
                               std::int64_t ctas_per_sm);

}  // namespace versieve::engine
