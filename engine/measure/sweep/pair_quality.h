// What the sweep `pair` measures beside its points: reuse schedules calibrated on the texts of the
// first split, and what they and approximate groups cost, judged on those of the second split and
// on questions. Requests to engine/run/calibrate and engine/run/quality; who stores them is the
// caller's matter.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/measure/sweep/pair_sweep.h"
#include "engine/run/calibrate/calibrate_request.h"
#include "engine/run/quality/lossy_quality.h"

namespace versieve::engine {

// Nats a token that a calibrated schedule may lose, ascending.
inline constexpr std::array<double, 3> kLossBudgets = {0.005, 0.02, 0.05};

// One piece of text of each regime, on a CPU shorter and of two. None where no text of the first
// split is long enough for schedules to differ.
std::optional<CalibrateRequest> pair_calibration(const PairAtHand& pair, int threads);

struct CalibratedSchedule {
  double budget = 0.0;   // nats a token
  std::string schedule;  // a letter a layer, or the usual schedule that says the same
  double rise = 0.0;     // that was measured where it was found
};
// One a budget, those that two budgets find or that reuse nothing once or not at all.
std::vector<CalibratedSchedule> calibrated_schedules(const ScheduleSearch& search);
// The usual schedules beside F*, then the calibrated ones.
std::vector<std::string> reuse_schedules(const std::vector<CalibratedSchedule>& calibrated);

// One set of questions, or the texts of the second split: a request with every strategy.
struct PairQualityPart {
  std::string name;   // of its task set or "texts"
  std::string split;  // as it is stored
  LossyQualityRequest request;
  // All of the request but its strategies, JSON: what was measured so need not be again.
  std::string configuration;
};
struct PairQualityOptions {
  std::vector<std::string> reuse;  // schedules
  // The one of them that approximate groups are measured with too.
  std::string product = "(FR)*";
  std::vector<std::filesystem::path> tasks;
  std::int64_t questions = 0;  // of each set at most; 0: 48, on a CPU 4
  int threads = 0;
};
std::vector<PairQualityPart> pair_quality(const PairAtHand& pair,
                                          const PairQualityOptions& options);

}  // namespace versieve::engine
