// Runs a sequence of launches through one memory hierarchy, range by range, as counters are
// collected on a GPU: in what state a collection finds L2 belongs to what it counts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/analyse/sim/launch_schedule.h"
#include "engine/analyse/sim/memory_system.h"
#include "engine/analyse/sim/memory_trace.h"
#include "model/words/measurement.h"

namespace versieve::engine {

// How counters are collected: `repetitions` of the work, of which the last counts. Opening the
// profiler replaces what L2 held; what it wrote leaves L2 as those lines are replaced.
struct CollectionProtocol {
  std::int64_t repetitions = 1;
  bool warm_up = false;              // uncounted runs come first, as many as a timed sample has
  double opening_dirty_share = 0.0;  // of the lines that were there before
  double opening_written = 0.0;      // bytes that opening the profiler leaves dirty in L2
};

// What sweeps do: one repetition behind uncounted runs on all sets of buffers.
CollectionProtocol collection_warmed_up();
// Nobody watches: L2 full of clean lines of others; warm: the work itself ran before.
CollectionProtocol collection_quiet();
CollectionProtocol collection_warm();

using LaunchSequence = std::vector<std::unique_ptr<LaunchTrace>>;

// One range: all launches of a path within a repetition.
struct SimulatedRange {
  std::string path;
  std::int64_t launches = 0;
  MemoryCounters counters;
};

// The launches on each set of buffers, and which sets a collection runs, in order.
struct CollectedRuns {
  std::vector<LaunchSequence> sets;
  std::vector<std::size_t> uncounted;
  std::vector<std::size_t> counted;  // a repetition each
};

// One run after the other on the same L2. Returns the last repetition's counters, ranges in order
// of first launch.
std::vector<SimulatedRange> collect(const MemoryMachine& machine,
                                    const CollectionProtocol& protocol, const CollectedRuns& runs);
// One repetition on the memory as it is, from cycle `now` on, which becomes that of its end.
std::vector<SimulatedRange> run_sequence(const MemoryMachine& machine, MemorySystem& memory,
                                         const LaunchSequence& launches, double& now);

// As a sweep's point: counters by range, durations as their times.
void fill_ranges(const std::vector<SimulatedRange>& ranges, PointMeasurement& point);

}  // namespace versieve::engine
