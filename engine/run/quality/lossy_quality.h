// What does a lossy choice cost? Each strategy reads held-out texts and answers questions about
// them; beside it stands the exact run of the same target, dense or of every block selected anew.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/quality/intervals.h"
#include "model/words/chain_share.h"
#include "model/words/quality_point.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// A text that is no file of its own: a piece of one, in tokens of the target's.
struct QualityWindow {
  std::string group;  // of its set
  std::string name;
  std::vector<std::int32_t> tokens;
};

// How far a run is. `left_s`: by the questions and texts so far, weighted by their lengths.
struct QualityProgress {
  std::string what;
  double done = 0.0;  // share of the work
  double elapsed_s = 0.0, left_s = 0.0;
};

struct LossyQualityRequest {
  std::filesystem::path model;
  std::vector<std::string> strategies;
  std::vector<std::filesystem::path> tasks;  // task sets (engine/io/task_file.h)
  std::vector<std::filesystem::path> texts;  // grouped by their name up to the first '-'
  std::vector<QualityWindow> windows;
  std::int64_t scored = 512;   // last tokens of each text that are scored
  std::int64_t decoded = 32;   // tokens before a question that the strategy reads too
  std::int64_t questions = 0;  // of each set at most, evenly; 0: all
  // Texts have rows of their own for every so many tokens that are decoded; 0: none.
  std::int64_t cut = 0;
  std::string backend = "auto";
  std::string dtype = "f32";
  int threads = 0;
  // SpecAttn's, in the place of the model's layer_map.json; empty: that.
  std::vector<std::int32_t> layer_map;
  // A strategy that cannot be measured here is left out, which the report says, and the others are
  // measured; else it ends the run.
  bool leaves_out = false;
  std::function<void(const QualityProgress&)> on_progress;
};

// Right answers among questions. Against the exact run: of the same questions.
struct Answers {
  std::int64_t questions = 0, right = 0;
  std::int64_t gained = 0, lost = 0;  // right here and not there; there and not here

  double share() const { return static_cast<double>(right) / static_cast<double>(questions); }
  double change() const {
    return static_cast<double>(gained - lost) / static_cast<double>(questions);
  }
};

// One strategy on one set of questions, or on the texts of one group.
struct LossyQualityRow {
  std::string strategy;
  std::string read_as;            // text_reader.h, ReadForm
  std::int64_t tokens = 0;        // scored: of texts, or of the questions' true answers
  double divergence = 0.0;        // KL(exact || strategy), nats a token
  double loss = 0.0, rise = 0.0;  // nats a token; over the exact run's
  double agreement = 0.0;         // share of tokens with the exact run's likeliest
  Interval divergence_interval, rise_interval, agreement_interval;
  std::optional<Answers> answers;  // of a task set
};

struct QualitySet {
  std::string name;  // of the task set, or of the texts' group
  bool asks = false;
  // Of the set's file; of texts of what sha256sum prints of them, or of windows' tokens.
  std::string sha256;
  // Tokens between what is asked for and the question; of texts tokens decoded so far; empty: all.
  std::string bucket;
  std::int64_t left_out = 0;          // questions that the model has too few positions for
  std::vector<LossyQualityRow> rows;  // the exact run first
};

struct LossyQualityReport {
  std::string model, backend, device, dtype;
  std::int64_t scored = 0, decoded = 0, questions = 0, cut = 0, tokens_run = 0;
  std::vector<QualitySet> sets;
  std::vector<ChainShare> chain_shares;  // of all sets together
  std::vector<std::string> remarks;
  std::vector<std::string> left_out;  // strategies and why, a sentence each
};

// Throws Error: kUsage for a contradictory request, kBadInput for files, kAnswerNo for a strategy
// that cannot be measured here, kEnvironment without the GPU asked for.
LossyQualityReport run_lossy_quality(const LossyQualityRequest& request);

// As the database keeps it: sets of texts as "texts: GROUP". `split`: of all sets, or empty.
std::vector<QualityPoint> quality_points(const LossyQualityReport& report, const PairId& pair,
                                         const std::string& split);

// Rows of ChainShare: {strategy, share, share_95, counted}.
nlohmann::ordered_json chain_shares_json(const std::vector<ChainShare>& shares);
nlohmann::ordered_json lossy_quality_json(const LossyQualityReport& report);
std::string lossy_quality_text(const LossyQualityReport& report);

}  // namespace versieve::engine
