// A planner table played live: by the engine, on real prompts, at the table's contexts. What do
// plain decoding, the fixed baseline, a cell's first tuple, the guards and the best of the first
// tuples give in tokens a second, against each other and against what the table predicts?
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/measure/bench/planner_acceptance.h"
#include "engine/measure/bench/planner_cells.h"
#include "engine/measure/bench/planner_prompts.h"
#include "engine/run/speculate/generation.h"
#include "model/words/point_words.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {

struct PlannerBenchOptions {
  // Directory: config.json, weights, tokenizer, draft/. Or a geometry's name, for random weights
  // and synthetic acceptance.
  std::filesystem::path model;
  std::vector<std::filesystem::path> prompts;  // none under synthetic acceptance
  std::optional<SyntheticPlay> synthetic;      // none: acceptance is the pair's own
  std::vector<PrecisionClass> classes;         // empty: the table's
  std::vector<ContextBucket> buckets;          // of the table; empty: all
  std::int64_t max_new_tokens = 128;
  std::int64_t prompts_per_bucket = 4;
  std::int64_t candidates = 3;  // of a cell's tuples, that the oracle chooses from
  std::int64_t rounds = 3;
  bool joins_texts = false;
  bool sweeps_guard = false;  // both guards also under each of one_factor_settings()
  double temperature = 0.0;
  std::uint64_t seed = 0;
  std::string backend = "auto", dtype = "auto";
  int threads = 0;
};

// One run on one prompt.
struct RunPlay {
  std::vector<double> tokens_per_s, step_us;  // by round
  std::int64_t tokens = 0, steps = 0;         // of one round; tokens of the steps alone
  double yielded = 0.0;                       // by them, also what a stop cut off
  bool looping = false;                       // what was generated repeats itself
  bool moved = false;                         // by the guard; a bucket's border does not count
  bool recorded = false;                      // steps in graphs
  double record_s = 0.0;                      // of recordings made in timed rounds
  // Held to plain decoding of the same schedule; none: its tuples promise several texts.
  std::optional<Strategy> reference;
  std::optional<Divergence> divergence;
};

struct PromptPlay {
  std::string prompt;
  std::int64_t tokens = 0;
  PromptForm form = PromptForm::kWhole;
  bool grows = false;         // into a further bucket of the table
  std::vector<RunPlay> runs;  // of the bucket's
};

// Of what the table predicts of a tuple; 90 % interval for as many requests as prompts play.
struct Predicted {
  double tokens_per_s = 0.0, low = 0.0, high = 0.0;
  double tokens_a_step = 0.0;
  Provenance source = Provenance::kPredicted;  // measured: its step's time was
};

// One prompt of a row.
struct PlayedText {
  std::string prompt;
  std::int64_t tokens = 0, steps = 0;
  double yielded = 0.0, tokens_per_s = 0.0;
  bool looping = false;
};

// Medians over prompts; intervals of the median as summary_of gives them.
struct PlannerRow {
  Contender contender = Contender::kPlain;
  std::string strategy;  // of a guard the first; of the oracle the one that was best most often
  profiler::SampleSummary tokens_per_s;
  double pooled_tokens_per_s = 0.0;  // all tokens over all time
  // All that steps yielded over all time, what a table predicts: a stop that cuts off the last
  // step's rest is the request's, not the tuple's.
  double yielded_per_s = 0.0;
  double tokens_a_step = 1.0;                     // all that steps yielded over all steps
  profiler::SampleSummary over_plain, over_base;  // ratios, prompt by prompt
  // [prompt]: those ratios, and that to the first tuple.
  std::vector<double> each_over_plain, each_over_base, each_over_static;
  std::optional<Predicted> predicted;
  std::optional<bool> is_within;             // yielded_per_s in the predicted interval
  std::int64_t moved = 0;                    // prompts that the guard changed
  std::int64_t compared = 0, same_text = 0;  // prompts
  bool promises_text = false;
  std::vector<PlayedText> texts;  // in the order of the prompts

  std::int64_t looping() const;  // of the texts
};

// Both guards under one setting of the constants: gains over the coarsened baseline, medians over
// prompts.
struct SettingRow {
  std::string name;
  double best_r = 0.0, best_p = 0.0;
  std::int64_t moved_r = 0, moved_p = 0;  // prompts
};

struct PlannerCell {
  std::int64_t bucket = 0;
  ContextBucket range;
  PrecisionClass precision = PrecisionClass::kStrict;
  std::int64_t prompts = 0;
  std::int64_t growing = 0;                         // of them, into a further bucket
  std::vector<PlannerRow> rows;                     // in the order of kContenders
  std::optional<profiler::SampleSummary> guard_us;  // what a guard costs a step
  std::vector<SettingRow> settings;  // the table's own first; empty where none is asked for

  const PlannerRow& row(Contender contender) const;
};

// A claim of the plan, judged by what was played.
struct Verdict {
  // 95 % interval of a mean over prompts (Student's), less one; none of fewer than three.
  struct Mean {
    double mean = 0.0;
    std::optional<double> low, high;
  };
  std::string claim;
  std::optional<bool> holds;  // none: nothing to judge by
  Mean gain;                  // what it is judged by; of a share no gain
  std::string detail;         // where, and how many
};
// `ratios`: not empty.
Verdict::Mean mean_gain_of(const std::vector<double>& ratios);

struct UnplayedCell {
  ContextBucket range;
  std::optional<PrecisionClass> precision;  // none: the whole bucket
  std::string reason;
};

// A text that is not its reference's.
struct TextDivergence {
  ContextBucket range;
  std::string prompt, strategy, reference;
  Divergence at;             // its gap is measured where the text is promised
  bool is_promised = false;  // to be the same
};

struct PlannerBench {
  Backend backend = Backend::kCpu;
  std::string device;
  Dtype dtype = Dtype::kF32;
  std::string hardware, planned_model, planned_pair;  // of the table
  std::string pair;                                   // that played, with its hash
  PlannerBenchOptions options;
  std::vector<PlannerCell> cells;
  std::vector<UnplayedCell> unplayed;
  // [played bucket]: who played it.
  struct BucketPrompts {
    ContextBucket range;
    std::vector<PromptPlay> prompts;  // without their runs
  };
  std::vector<BucketPrompts> prompts;
  std::vector<TextDivergence> divergences;
  bool all_recorded = true;
  double record_s = 0.0;  // of recordings made in timed rounds
  std::vector<std::string> remarks;

  // Mean over cells of the ratio to the coarsened baseline, less one; none without cells.
  std::optional<double> mean_gain(Contender contender) const;
  // The same of the ratio to plain decoding.
  std::optional<double> mean_gain_over_plain(Contender contender) const;
  // Cells whose first tuple was as fast as predicted, and all rows with a prediction, plain
  // decoding and the baseline of a bucket counted once.
  struct Coverage {
    std::int64_t within = 0, all = 0;
  };
  Coverage cell_coverage() const;
  Coverage row_coverage() const;
  Coverage rows_of_measured_steps() const;  // `within`: of those, with a measured step
  std::optional<profiler::SampleSummary> guard_us() const;  // over cells
  // Means over cells, moves added up; empty where the guard's constants are not swept.
  std::vector<SettingRow> settings() const;
  // Static and guarded against the baseline, the guards against the first tuple and plain decoding,
  // coverage of the predicted intervals.
  std::vector<Verdict> verdicts() const;
  // Why the answer is "no" (a text that is promised is another), or empty.
  std::string failure() const;
};

// Throws Error(kUsage).
void check_options(const PlannerBenchOptions& options, const PlanTable& table);

// What passes by.
struct PlannerProgress {
  ContextBucket range;
  std::int64_t prompt = 0, prompts = 0;  // of the bucket, from 1
  std::string name;
  double seconds = 0.0;  // since the start
};

// Throws Error: kUsage for options that cannot be, kAnswerNo where no cell can be played,
// kBadInput for model or prompt files, kEnvironment without the GPU asked for.
PlannerBench bench_planner(const PlanTable& table, const PlannerBenchOptions& options,
                           const std::function<void(const PlannerProgress&)>& on_prompt);

// The cells of one bucket, from its plays.
std::vector<PlannerCell> cells_of(const PlanTable& table, const PlayedBucket& bucket,
                                  const std::vector<PromptPlay>& plays);

// Whether all tuples of a run promise the text of plain decoding of their schedule.
bool promises_text(const PlayedRun& run);
// The texts of a prompt that left their reference.
std::vector<TextDivergence> divergences_of(const PlayedBucket& bucket, const PromptPlay& play);

std::string planner_bench_json(const PlannerBench& bench);
std::string planner_bench_text(const PlannerBench& bench);

}  // namespace versieve::engine
