// A point of a sweep, simulated: the same key, the same ranges, counters of the same names.
#pragma once

#include <string>

#include "engine/analyse/sim/attended_blocks.h"
#include "engine/analyse/sim/measured_choice.h"
#include "engine/analyse/sim/simulated_run.h"
#include "engine/measure/sweep/pair_source.h"

namespace versieve::engine {

struct SimulationPlan {
  MemoryMachine machine;
  CollectionProtocol protocol;
  std::uint64_t seed = 1;            // of the sweep
  const PairSource* pair = nullptr;  // whose points bear its hash: shapes are read in its folder
  const MeasuredChoice* choice = nullptr;  // what SpecAttn reads, in the place of a synthetic law
};

// A step that drafts is the one that the host leads, or that of a pair whose draft runs in one
// launch, as sweeps count them (step_sequence.h). The key's backend becomes "sim". A point
// that no GPU could run is refused with its reason; so is one that nobody simulates (acceptance).
// A pair's point is simulated by its shapes, on blocks drawn as those of a geometry by name.
// Throws Error(kUsage) for a key that does not parse.
PointMeasurement simulate_point(const PointKey& key, const KnownBlocks& known,
                                const SimulationPlan& plan);

// The launches of one NSA layer's attention of that key on a set of buffers of its own for each of
// `sets`; the first refuses what is illegal by throwing Error(kAnswerNo).
std::vector<LaunchSequence> attention_sequences(const PointKey& key, const KnownBlocks& known,
                                                std::uint64_t seed, std::int64_t sets,
                                                const PairSource* pair = nullptr);

// The launches of a step of that key; without `one_launch` a plain one's layer by layer. Refuses
// likewise.
LaunchSequence step_point_sequence(const PointKey& key, const KnownBlocks& known,
                                   std::uint64_t seed, bool one_launch,
                                   const PairSource* pair = nullptr,
                                   const MeasuredChoice* choice = nullptr);

}  // namespace versieve::engine
