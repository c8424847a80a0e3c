// What the sweep `pair` measures beside its points: reuse schedules calibrated on the texts of the
// first split, and what they, approximate groups and sigmoids cost, judged on those of the second
// split and on questions; and of the dense model that the pair was made from what reading fewer
// tokens of its cache costs. Requests to engine/run/calibrate and engine/run/quality; who stores
// them is the caller's matter.
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
  PairId pair;        // whose strategies: the pair's, or of its dense model
  std::string name;   // of its task set or "texts"
  std::string split;  // as it is stored
  LossyQualityRequest request;
  // All of the request but its strategies, JSON: what was measured so need not be again.
  std::string configuration;
};
struct PairQualityOptions {
  std::vector<std::string> reuse;  // schedules
  // The one of them that approximate groups are measured with too on a CPU; on a GPU they are with
  // each.
  std::string product = "(FR)*";
  std::vector<std::filesystem::path> tasks;
  std::int64_t questions = 0;  // of each set at most; 0: 48, on a CPU 4
  int threads = 0;
};
std::vector<PairQualityPart> pair_quality(const PairAtHand& pair,
                                          const PairQualityOptions& options);

// The parts as they are measured and stored, so many strategies at a time: every strategy on texts
// before any on questions, set by set.
std::vector<PairQualityPart> quality_pieces(const std::vector<PairQualityPart>& parts);

// A dense model with the pair's tokenizer, in whose place the pair would decode with ReSA or
// SpecAttn.
struct DenseModel {
  std::filesystem::path folder;
  PairId id;
};
// Key of a quality run's configuration that holds the SHA-256 of the pair whose dense model it is
// of.
inline constexpr const char* kDenseOf = "dense_of";
// Why that folder holds no such model, or an empty text. Throws Error(kBadInput) for a folder that
// is no model's.
std::string no_dense_model_because(const PairAtHand& pair, const std::filesystem::path& folder);
// The folder `dense` beside the pair's, where it holds such a model; else empty.
std::filesystem::path dense_model_beside(const PairAtHand& pair);
// As pair_quality: ReSA's and SpecAttn's settings that a plan goes over. SpecAttn's layers are
// aligned on texts of the first split where the folder holds no layer_map.json; what cannot be
// measured goes to `left_out`, a sentence each. REQUIRES: it is such a model.
std::vector<PairQualityPart> dense_quality(const PairAtHand& pair, const DenseModel& dense,
                                           const PairQualityOptions& options,
                                           std::vector<std::string>& left_out);

}  // namespace versieve::engine
