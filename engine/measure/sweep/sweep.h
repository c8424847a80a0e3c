// A declared sweep: which points are measured, how often, in what state. A sweep is JSON (README.md
// of this folder) or the name of a built-in one, which is JSON too. It expands to one list of
// points, always in the same order, which shards cut and resume thins out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/words/measurement.h"
#include "model/words/pair_id.h"
#include "profiler/timing.h"

namespace versieve::engine {

inline constexpr double kMostTemperature = 10.0;  // of a point

// The GPU's count of its energy is brought up to date some tens of times a second.
inline constexpr double kMostEnergySeconds = 60.0;

struct SweepPlan {
  std::string name;
  std::uint64_t seed = 1;
  profiler::TimingPlan timing;
  std::int64_t trace_repetitions = 5;
  std::int64_t counter_repetitions = 3;
  double energy_s = 0.0;         // of runs over which a point's energy is counted; 0: not
  std::int64_t prompts = 2;      // of each regime and context, for acceptance points
  std::int64_t walks = 2;        // of those, walked along their author's own text, too
  std::int64_t new_tokens = 96;  // generated for each prompt
  std::vector<PointKey> points;
  // Of the trained pair whose points these are, as JSON (pair_configuration); empty without one.
  std::string pair;
};

// Texts of the built-in sweeps; throws Error(kUsage) naming them for another name.
std::vector<std::string> sweep_names();
std::string_view built_in_sweep(std::string_view name);

// Regimes of the texts that acceptance is measured on, where a sweep does not say.
std::vector<std::string> text_regimes();

// What a sweep calls the trained pair at hand, whatever its name.
inline constexpr const char* kPairModel = "pair";

// The plan of a JSON text for a backend, "cuda" or "cpu" (which takes the place of every point's
// dtype bf16 by f32), and for that pair. Throws Error(kBadInput) naming the key that is wrong;
// `origin` is named too.
SweepPlan sweep_from_json(const std::string& text, const std::string& origin, Backend backend,
                          const PairId& pair = byte_pair());
// Whether any point runs a trained pair's weights.
bool wants_pair(const SweepPlan& plan);

// The plan as JSON, all defaults written out: what a run stores as its configuration. Shard and
// paths are no part of it, so that shards of one sweep know each other.
std::string configuration_json(const SweepPlan& plan);

// Points index, index + count, ...: every point is in exactly one of the shards 0 ... count - 1.
std::vector<PointKey> shard_of(const std::vector<PointKey>& points, std::int64_t index,
                               std::int64_t count);
// "2/8" -> {1, 8}: people count from 1. Throws Error(kUsage).
struct Shard {
  std::int64_t index = 0;
  std::int64_t count = 1;
};
Shard parse_shard(std::string_view text);

// The points that `is_stored` does not know.
std::vector<PointKey> remaining_points(const std::vector<PointKey>& points,
                                       const std::function<bool(const PointKey&)>& is_stored);

}  // namespace versieve::engine
