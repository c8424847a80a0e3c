// Who plays a bucket of a planner table: for each precision class plain decoding, the fixed
// baseline in groups and without, the first tuples, and the first under each guard. What several
// classes share is one run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/plan/planner.h"
#include "model/plan/runtime_guard.h"

namespace versieve::engine {

// In the words of engine/analyse/replay.
enum class Contender { kPlain, kBase, kBaseSingle, kStatic, kBestR, kBestP, kOracle };
inline constexpr Contender kContenders[] = {
    Contender::kPlain, Contender::kBase,  Contender::kBaseSingle, Contender::kStatic,
    Contender::kBestR, Contender::kBestP, Contender::kOracle};
// "plain", "base" (the fixed baseline in exact groups), "base c1" (the same in groups of one),
// "static" (rank 1), "best+R" and "best+P" (rank 1 under the guard ranked and promise), "oracle"
// (of the first tuples the one that was fastest on the prompt)
const char* name_of(Contender contender);

// Queries of a group of the coarsened baseline, where the table's own stands in groups of one.
inline constexpr std::int64_t kBaseGroup = 8;

struct PlayedGuard {
  GuardConstants constants;
  GuardRule rule = GuardRule::kNextRanked;
  std::vector<GuardedTuple> expected;  // of each tuple
};

// One run that is repeated on each prompt.
struct PlayedRun {
  std::vector<Strategy> ranked;      // of a guard; else one
  std::optional<PlayedGuard> guard;  // none: the tuple alone

  const Strategy& first() const { return ranked.front(); }
};

// Indices into the bucket's runs.
struct PlayedCell {
  PrecisionClass precision = PrecisionClass::kStrict;
  std::string unplayed_because;  // empty: it is played
  std::size_t plain = 0, base = 0, base_single = 0, best_r = 0, best_p = 0;
  std::vector<std::size_t> first;  // rank 1, rank 2, ...
  // Both guards under each of the settings, where these are asked for.
  std::vector<std::size_t> settings_r, settings_p;
  // Rank 1 under a guard that stays; none: rank 1 is plain decoding.
  std::optional<std::size_t> never_moving;
};

struct PlayedBucket {
  std::int64_t index = 0;  // in the table
  ContextBucket range;
  std::vector<PlayedRun> runs;
  std::vector<PlayedCell> cells;

  bool is_played() const;  // any cell is
};

// Why a tuple cannot run here, or an empty text.
using RefusalOf = std::function<std::string(const Strategy&)>;

// `candidates`: how many of a cell's tuples the oracle chooses from; at least 1.
PlayedBucket played_bucket(const PlanTable& table, std::int64_t bucket,
                           const std::vector<PrecisionClass>& classes, std::int64_t candidates,
                           const RefusalOf& refusal, const std::vector<VariedGuard>& settings = {});

// The fixed baseline of a bucket in exact groups, and in groups of one. None: the table has none.
std::optional<Strategy> coarsened_base(const PlanTable& table, std::int64_t bucket);
std::optional<Strategy> single_base(const PlanTable& table, std::int64_t bucket);

// What the table predicts of a tuple in a bucket; null: nothing.
const Evaluation* prediction_of(const PlanTable& table, std::int64_t bucket,
                                const Strategy& strategy);

// A sweep (engine/measure/sweep) of the steps that a played table rests on, as JSON: in the middle
// of each bucket plain decoding, both baselines and the first `candidates` tuples of each cell that
// attends as the pair's target does. `regime`, `split`: of the texts of a trained pair's steps.
// Empty: there is no such step.
std::string sweep_of_steps(const PlanTable& table, const std::vector<PrecisionClass>& classes,
                           std::int64_t candidates, const std::string& regime,
                           const std::string& split);

}  // namespace versieve::engine
