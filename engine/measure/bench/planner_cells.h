// Who plays a bucket of a planner table: for each precision class plain decoding, the fixed
// baseline in groups and without, the first tuples, and the first under each guard. What several
// classes share is one run. A context that grows into the next bucket goes on by what stands there
// in the same place.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/plan/guarded_plan.h"
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

// One run that is repeated on each prompt.
struct PlayedRun {
  // The bucket's tuples, then those of the buckets that a context may grow into. Without a guard
  // one each, and a bucket whose tuple is that of the bucket before is left out.
  GuardedPlan plan;
  bool is_guarded = false;

  const std::vector<Strategy>& ranked() const { return plan.buckets.front().ranked; }
  const Strategy& first() const { return ranked().front(); }
  std::vector<Strategy> tuples() const;  // of all its buckets
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

struct CellRequest {
  std::int64_t bucket = 0;
  std::int64_t longest = 0;     // context that a run grows to
  std::int64_t candidates = 3;  // of a cell's tuples, that the oracle chooses from; at least 1
  std::vector<VariedGuard> settings;
};
PlayedBucket played_bucket(const PlanTable& table, const std::vector<PrecisionClass>& classes,
                           const CellRequest& request, const RefusalOf& refusal);

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
