#include "engine/analyse/sim/simulated_run.h"

#include <algorithm>

#include "model/words/assert.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {
namespace {

SimulatedRange& range_of(const std::string& path, std::vector<SimulatedRange>& ranges) {
  const auto found = std::find_if(ranges.begin(), ranges.end(),
                                  [&](const SimulatedRange& r) { return r.path == path; });
  if (found != ranges.end()) {
    return *found;
  }
  ranges.push_back({.path = path});
  return ranges.back();
}

// Member by member: repetitions are few and each counter stands for itself.
MemoryCounters median_of_repetitions(const std::vector<std::vector<SimulatedRange>>& repetitions,
                                     std::size_t range) {
  static constexpr double MemoryCounters::*kMembers[] = {
      &MemoryCounters::l1_sectors,       &MemoryCounters::sm_sectors,
      &MemoryCounters::l2_sectors,       &MemoryCounters::l2_read_sectors,
      &MemoryCounters::l2_write_sectors, &MemoryCounters::l2_hit_sectors,
      &MemoryCounters::l2_requests,      &MemoryCounters::l2_hit_requests,
      &MemoryCounters::dram_read_bytes,  &MemoryCounters::dram_write_bytes,
      &MemoryCounters::cycles,           &MemoryCounters::duration_ns};
  MemoryCounters result;
  for (double MemoryCounters::*member : kMembers) {
    std::vector<double> values;
    for (const std::vector<SimulatedRange>& repetition : repetitions) {
      values.push_back(repetition[range].counters.*member);
    }
    result.*member = profiler::median_of(values);
  }
  return result;
}

}  // namespace

// Fitted to the points that store almost nothing themselves (README.md: what the profiler leaves).
CollectionProtocol collection_shared() {
  return {
      .repetitions = 2, .cold_code = true, .opening_dirty_share = 0.25, .opening_written = 20e6};
}

CollectionProtocol collection_each() {
  return {.repetitions = 3,
          .cold_code = true,
          .opening_dirty_share = 0.05,
          .opening_written = 20e6,
          .between_read = 40e6,
          .between_written = 3e6};
}

CollectionProtocol collection_warmed_up() {
  CollectionProtocol protocol = collection_shared();
  protocol.repetitions = 1;
  protocol.cold_code = false;
  protocol.warm_up = true;
  return protocol;
}

CollectionProtocol collection_quiet() {
  return {};
}

CollectionProtocol collection_warm() {
  return {.repetitions = 2, .only_last = true};
}

std::vector<SimulatedRange> run_sequence(const MemoryMachine& machine, MemorySystem& memory,
                                         const LaunchSequence& launches, double& now) {
  std::vector<SimulatedRange> ranges;
  for (const std::unique_ptr<LaunchTrace>& launch : launches) {
    const MemoryCounters before = memory.counters();
    const ScheduledLaunch scheduled = run_launch(*launch, machine, memory, now);
    MemoryCounters counted = memory.counters() - before;
    counted.cycles = scheduled.end_cycle - now;
    counted.duration_ns = 1e9 * counted.cycles / machine.clock_hz;
    now = scheduled.end_cycle;
    SimulatedRange& range = range_of(launch->shape().path, ranges);
    range.launches += 1;
    range.counters += counted;
  }
  return ranges;
}

std::vector<SimulatedRange> collect(const MemoryMachine& machine,
                                    const CollectionProtocol& protocol, const CollectedRuns& runs) {
  VERSIEVE_ASSERT(static_cast<std::int64_t>(runs.counted.size()) == protocol.repetitions &&
                      !runs.counted.empty(),
                  "a run a repetition");
  MemoryMachine watched = machine;
  watched.cold_code = protocol.cold_code;
  MemorySystem memory(watched);
  memory.fill_foreign(2.0 * static_cast<double>(machine.l2_bytes), protocol.opening_dirty_share);
  memory.fill_foreign(protocol.opening_written, 1.0);
  double now = 0.0;  // goes on: what is on its way belongs to the run that asked for it
  for (const std::size_t set : runs.uncounted) {
    run_sequence(machine, memory, runs.sets[set], now);
  }
  std::vector<std::vector<SimulatedRange>> counted;
  for (std::size_t r = 0; r < runs.counted.size(); ++r) {
    if (r > 0) {
      memory.fill_foreign(protocol.between_read, 0.0);
      memory.fill_foreign(protocol.between_written, 1.0);
    }
    counted.push_back(run_sequence(machine, memory, runs.sets[runs.counted[r]], now));
  }
  if (protocol.only_last) {
    return counted.back();
  }
  std::vector<SimulatedRange> ranges = counted.front();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].counters = median_of_repetitions(counted, i);
  }
  return ranges;
}

void fill_ranges(const std::vector<SimulatedRange>& ranges, PointMeasurement& point) {
  double total_ns = 0.0;
  for (const SimulatedRange& range : ranges) {
    RangeMeasurement measured{.path = range.path, .launches = range.launches};
    measured.gpu_time_ns = {range.counters.duration_ns};
    measured.counters = counter_values(range.counters);
    total_ns += range.counters.duration_ns;
    point.ranges.push_back(std::move(measured));
  }
  point.time_ns = {total_ns};
  point.stop_reason = "fixed";
}

}  // namespace versieve::engine
