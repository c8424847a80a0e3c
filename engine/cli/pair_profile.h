// What `versieve profile --sweep pair` stores beside points: the schedules calibrated on the pair,
// as a run of kind `calibration`, and what they, approximate groups and sigmoids cost, as runs of
// kind `quality`, one a set; so are those of ReSA and SpecAttn on the pair's dense model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "db/store.h"
#include "engine/measure/sweep/pair_quality.h"
#include "engine/measure/sweep/sweep.h"

namespace versieve::cli {

struct PairProfileOptions {
  bool resume = false;  // what the database holds is not measured again
  int threads = 0;
  engine::Shard shard;  // of the sets; every shard calibrates
  std::vector<std::filesystem::path> tasks;
  std::filesystem::path dense;  // the pair's dense model; empty: none
  std::int64_t questions = 0;
  double quality_s = 0.0;          // seconds after which no other piece is begun; 0: all are
  std::function<void()> on_pause;  // called now and then; may throw to end the work
};

// None where the pair's texts are too short.
std::vector<engine::CalibratedSchedule> calibrate_pair(db::Store& store,
                                                       const engine::PairAtHand& pair,
                                                       const PairProfileOptions& options);
struct PairQualityOutcome {
  std::int64_t rows = 0;              // stored, of strategies and sets
  std::int64_t skipped = 0;           // strategies of sets that were there before
  std::int64_t not_begun = 0;         // strategies of sets: the time was over
  std::vector<std::string> left_out;  // sets, strategies and why, a sentence each
};
PairQualityOutcome measure_pair_quality(db::Store& store, const engine::PairAtHand& pair,
                                        const std::vector<engine::CalibratedSchedule>& calibrated,
                                        const PairProfileOptions& options);

}  // namespace versieve::cli
