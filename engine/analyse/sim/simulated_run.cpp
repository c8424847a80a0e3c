#include "engine/analyse/sim/simulated_run.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr double kSettledPasses = 32.0;

SimulatedRange& range_of(const std::string& path, std::vector<SimulatedRange>& ranges) {
  const auto found = std::find_if(ranges.begin(), ranges.end(),
                                  [&](const SimulatedRange& r) { return r.path == path; });
  if (found != ranges.end()) {
    return *found;
  }
  ranges.push_back({.path = path});
  return ranges.back();
}

// What the launch's middle CTA asks for, times its CTAs.
double asked_bytes(const LaunchTrace& launch) {
  const std::int64_t cta = launch.shape().ctas / 2;
  std::vector<Access> accesses;
  for (std::int64_t step = 0; launch.append_step(cta, step, accesses); ++step) {
  }
  double bytes = 0.0;
  for (const Access& access : accesses) {
    bytes += static_cast<double>(access.bytes) * access.count;
  }
  return bytes * static_cast<double>(launch.shape().ctas);
}

// The uncounted runs, of which only the last launches matter: those that ask for kSettledPasses
// times L2 leave nothing of what was there before them.
void warm_up(const MemoryMachine& machine, const CollectedRuns& runs, MemorySystem& memory,
             double& now) {
  std::vector<const LaunchTrace*> launches;
  for (const std::size_t set : runs.uncounted) {
    for (const std::unique_ptr<LaunchTrace>& launch : runs.sets[set]) {
      launches.push_back(launch.get());
    }
  }
  std::size_t first = launches.size();
  double asked = 0.0;
  while (first > 0 && asked < kSettledPasses * static_cast<double>(machine.l2_bytes)) {
    asked += asked_bytes(*launches[--first]);
  }
  for (std::size_t i = 0; i < launches.size(); ++i) {
    if (i < first) {
      memory.begin_launch();  // each begins elsewhere
    } else {
      now = run_launch(*launches[i], machine, memory, now).end_cycle;
    }
  }
}

}  // namespace

// What the opening leaves is fitted to points that store almost nothing themselves.
CollectionProtocol collection_warmed_up() {
  return {.warm_up = true, .opening_dirty_share = 0.25, .opening_written = 20e6};
}

CollectionProtocol collection_quiet() {
  return {};
}

CollectionProtocol collection_warm() {
  return {.repetitions = 2};
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
  MemorySystem memory(machine);
  memory.fill_foreign(2.0 * static_cast<double>(machine.l2_bytes), protocol.opening_dirty_share);
  memory.fill_foreign(protocol.opening_written, 1.0);
  double now = 0.0;  // goes on: what is on its way belongs to the run that asked for it
  warm_up(machine, runs, memory, now);
  std::vector<SimulatedRange> last;
  for (const std::size_t set : runs.counted) {
    last = run_sequence(machine, memory, runs.sets[set], now);
  }
  return last;
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
