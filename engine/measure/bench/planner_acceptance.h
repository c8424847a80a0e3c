// Whose acceptance a planner table is played with where it is not the playing pair's own: recorded
// walks of a trained pair, or the table's own tokens a step as a law.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/measure/bench/planner_prompts.h"
#include "engine/run/speculate/synthetic_acceptance.h"
#include "model/plan/planner.h"

namespace versieve::engine {

struct SyntheticPlay {
  AcceptanceFrom from = AcceptanceFrom::kLaw;
  std::string source;  // whose: "the walks of smollm2-nsa, split test"
  // The texts of a bucket, of a law so many; none where nothing is known.
  std::function<std::vector<SyntheticText>(const ContextBucket& bucket, std::int64_t count)> texts;
};

// Each tuple by what the table expects of it in that bucket, else in a later one: texts at the
// contexts at which buckets are priced, each with draws and a share of its own.
SyntheticPlay law_play(const PlanTable& table, std::uint64_t seed);

// Tokens a step that the table expects of the tuple there, or of another that accepts the same:
// exact groups of any size and order do. None: nothing.
std::optional<double> expected_tokens(const PlanTable& table, std::int64_t bucket,
                                      const Strategy& strategy);

}  // namespace versieve::engine
