#include "engine/measure/bench/planner_bench.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>

#include "engine/io/pair_identity.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/acceptance.h"
#include "engine/run/speculate/decoding_pair.h"
#include "engine/run/speculate/reference.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostWarmUps = 3;

// Plays the runs of a bucket on one prompt after another. Weights stay; a prompt is read once.
template <class T>
class Player {
 public:
  Player(const PlannerBenchOptions& options, const ComputeDevice& device, DecodingPair<T>& pair)
      : options_(options), on_gpu_(device.backend == Backend::kCuda), pair_(pair) {}

  std::string refusal(const Strategy& strategy) {
    const std::string reason = pair_.generator().refusal(options_of(strategy));
    return reason.empty() && !can_be_guarded(strategy)
               ? "a guard changes between tuples of the target's own attention alone"
               : reason;
  }

  // None: the prompt's answer ends before its first step.
  std::optional<PromptPlay> play(const PlayedBucket& bucket, const PlayedPrompt& prompt) {
    pair_.generator().prefill(prompt.tokens);
    pair_.generator().reserve(options_.max_new_tokens);
    references_.clear();
    if (reference_of_run(Strategy{}).steps == 0) {
      return {};
    }
    for (const PlayedRun& run : bucket.runs) {
      reference_of_run(run.first());  // now, so that nothing else runs between what is timed
    }
    warm_up(bucket.runs);
    PromptPlay out{.prompt = prompt.name,
                   .tokens = static_cast<std::int64_t>(prompt.tokens.size()),
                   .form = prompt.form,
                   .runs = std::vector<RunPlay>(bucket.runs.size())};
    for (std::int64_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = 0; i < bucket.runs.size(); ++i) {
        // There and back, so that nobody always follows the same neighbour.
        const std::size_t at = round % 2 == 0 ? i : bucket.runs.size() - 1 - i;
        add(bucket.runs[at], generated(bucket.runs[at]), out.runs[at]);
      }
    }
    for (std::size_t i = 0; i < bucket.runs.size(); ++i) {
      if (out.runs[i].divergence && promises_text(bucket.runs[i])) {
        measure_gap(options_of(*out.runs[i].reference), pair_.generator(), *out.runs[i].divergence);
      }
    }
    return out;
  }

 private:
  GenerateOptions options_of(const Strategy& strategy) const {
    return {.strategy = strategy,
            .max_new_tokens = options_.max_new_tokens,
            .temperature = options_.temperature,
            .seed = options_.seed,
            .eos = pair_.eos(),
            .records_steps = on_gpu_};
  }

  Generation generated(const PlayedRun& run) {
    if (!run.guard) {
      return pair_.generator().run(options_of(run.first()));
    }
    RuntimeGuard guard(run.guard->constants, run.guard->rule, run.guard->expected);
    return pair_.generator().run_guarded(options_of(run.first()), run.ranked, guard);
  }

  // Whole runs, untimed, until none of them makes a recording: one made late may have had memory
  // released that earlier ones name.
  void warm_up(const std::vector<PlayedRun>& runs) {
    if (!on_gpu_) {
      return;
    }
    bool recorded = true;
    for (int round = 0; recorded && round < kMostWarmUps; ++round) {
      recorded = false;
      for (const PlayedRun& run : runs) {
        recorded |= generated(run).record_seconds > 0.0;
      }
    }
  }

  const Generation& reference_of_run(const Strategy& strategy) {
    const Strategy plain = reference_of(strategy);
    const auto [found, is_new] = references_.try_emplace(plain.text());
    if (is_new) {
      found->second = pair_.generator().run(options_of(plain));
    }
    return found->second;
  }

  void add(const PlayedRun& run, const Generation& made, RunPlay& out) {
    out.tokens_per_s.push_back(made.tokens_per_second());
    out.step_us.push_back(1e6 * made.decode_seconds() / static_cast<double>(made.steps));
    out.tokens = static_cast<std::int64_t>(made.tokens.size()) - 1;
    out.steps = made.steps;
    out.yielded = made.accepted_per_step() * static_cast<double>(made.steps);
    out.moved |= !made.moves.empty();
    out.recorded = made.recorded;
    out.record_s += made.record_seconds;
    const bool comparable = options_.temperature == 0.0 || samples_coupled(run.first());
    if (!comparable || out.divergence || !is_of_one_text(run.first(), made.moves, run.ranked)) {
      return;
    }
    out.reference = reference_of(run.first());
    out.divergence = first_divergence(made, reference_of_run(run.first()));
  }

  const PlannerBenchOptions& options_;
  bool on_gpu_;
  DecodingPair<T>& pair_;
  std::map<std::string, Generation> references_;  // of this prompt, by schedule
};

std::vector<std::int64_t> asked_buckets(const PlanTable& table,
                                        const PlannerBenchOptions& options) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < table.buckets.size(); ++i) {
    const bool asked = std::find(options.buckets.begin(), options.buckets.end(),
                                 table.buckets[i]) != options.buckets.end();
    if (options.buckets.empty() || asked) {
      out.push_back(static_cast<std::int64_t>(i));
    }
  }
  return out;
}

// All of a table on one loaded pair.
template <class T>
class TablePlayer {
 public:
  TablePlayer(const PlanTable& table, const PlannerBenchOptions& options,
              const std::function<void(const PlannerProgress&)>& on_prompt, PlannerBench& bench,
              const ComputeDevice& device, DecodingPair<T>& pair, const Tokenizer& tokenizer)
      : table_(table),
        options_(options),
        on_prompt_(on_prompt),
        bench_(bench),
        pair_(pair),
        tokenizer_(tokenizer),
        player_(options, device, pair) {}

  void play(const std::vector<PromptTokens>& prompts) {
    const std::vector<PrecisionClass>& classes =
        options_.classes.empty() ? table_.classes : options_.classes;
    for (const std::int64_t index : asked_buckets(table_, options_)) {
      const PlayedBucket bucket = played_bucket(
          table_, index, classes, options_.candidates,
          [this](const Strategy& strategy) { return player_.refusal(strategy); },
          options_.sweeps_guard ? one_factor_settings(table_.guard) : std::vector<VariedGuard>());
      for (const PlayedCell& cell : bucket.cells) {
        if (!cell.unplayed_because.empty()) {
          bench_.unplayed.push_back({bucket.range, cell.precision, cell.unplayed_because});
        }
      }
      if (bucket.is_played()) {
        play_bucket(bucket, prompts);
      }
    }
  }

 private:
  void play_bucket(const PlayedBucket& bucket, const std::vector<PromptTokens>& all) {
    const std::vector<PlayedPrompt> prompts =
        prompts_for({.bucket = bucket.range,
                     .count = options_.prompts_per_bucket,
                     .most = pair_.positions() - options_.max_new_tokens - kDeepestTree,
                     .joins_texts = options_.joins_texts},
                    all, tokenizer_);
    std::vector<PromptPlay> plays;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      std::optional<PromptPlay> play = player_.play(bucket, prompts[i]);
      if (!play) {
        bench_.remarks.push_back(prompts[i].name + " is left out: its answer has no second token");
        continue;
      }
      const std::vector<TextDivergence> left = divergences_of(bucket, *play);
      bench_.divergences.insert(bench_.divergences.end(), left.begin(), left.end());
      for (const RunPlay& run : play->runs) {
        bench_.all_recorded &= run.recorded;
        bench_.record_s += run.record_s;
      }
      plays.push_back(std::move(*play));
      on_prompt_({.range = bucket.range,
                  .prompt = static_cast<std::int64_t>(i) + 1,
                  .prompts = static_cast<std::int64_t>(prompts.size()),
                  .name = prompts[i].name,
                  .seconds = std::chrono::duration<double>(Clock::now() - begin_).count()});
    }
    if (plays.empty()) {
      bench_.unplayed.push_back({bucket.range, {}, "no prompt reaches it"});
      return;
    }
    std::vector<PlannerCell> cells = cells_of(table_, bucket, plays);
    bench_.cells.insert(bench_.cells.end(), cells.begin(), cells.end());
    for (PromptPlay& play : plays) {
      play.runs.clear();
    }
    bench_.prompts.push_back({bucket.range, std::move(plays)});
  }

  const PlanTable& table_;
  const PlannerBenchOptions& options_;
  const std::function<void(const PlannerProgress&)>& on_prompt_;
  PlannerBench& bench_;
  DecodingPair<T>& pair_;
  const Tokenizer& tokenizer_;
  Player<T> player_;
  Clock::time_point begin_ = Clock::now();
};

// The pair that plays, and whether the table was planned for another.
void add_pair(const PlanTable& table, PlannerBench& bench) {
  const PairId played = pair_identity(bench.options.model);
  bench.pair = text_of(played);
  if (table.sources && table.sources->pair) {
    bench.planned_pair = text_of(*table.sources->pair);
    if (table.sources->pair->sha256 != played.sha256) {
      bench.remarks.push_back("the table was planned for " + bench.planned_pair + ", and " +
                              bench.pair + " plays it");
    }
  }
}

void require_played(const PlannerBench& bench) {
  if (!bench.cells.empty()) {
    return;
  }
  if (bench.unplayed.empty()) {
    throw Error(ExitCode::kAnswerNo, "the table has no cell to play");
  }
  const UnplayedCell& first = bench.unplayed.front();
  throw Error(ExitCode::kAnswerNo,
              "no cell of the table can be played: " + name_of(first.range) +
                  (first.precision ? std::string(", ") + name_of(*first.precision) : "") + ": " +
                  first.reason);
}

}  // namespace

void check_options(const PlannerBenchOptions& options, const PlanTable& table) {
  const auto refuse = [](const std::string& why) { throw Error(ExitCode::kUsage, why); };
  if (options.max_new_tokens < 2 || options.prompts_per_bucket < 1 || options.candidates < 1 ||
      options.rounds < 1) {
    refuse(
        "bench planner takes at least 2 new tokens and at least one prompt, candidate and round");
  }
  check_temperature(options.temperature);
  for (const ContextBucket& bucket : options.buckets) {
    if (std::find(table.buckets.begin(), table.buckets.end(), bucket) == table.buckets.end()) {
      std::string known;
      for (const ContextBucket& b : table.buckets) {
        known += (known.empty() ? "" : ", ") + name_of(b);
      }
      refuse("the table has no bucket " + name_of(bucket) + ": it has " + known);
    }
  }
}

PlannerBench bench_planner(const PlanTable& table, const PlannerBenchOptions& options,
                           const std::function<void(const PlannerProgress&)>& on_prompt) {
  check_options(options, table);
  const ComputeDevice device = compute_device(options.backend, options.threads);
  std::optional<Dtype> dtype;
  if (options.dtype != "auto") {
    dtype = dtype_on(device, options.dtype);
  }
  const PromptList list = listed_prompts(options.prompts);
  Checkpoint checkpoint = load_target(options.model);
  const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(options.model, checkpoint.shape);
  const std::vector<PromptTokens> prompts = prompt_tokens(list, *tokenizer, options.model);
  PlannerBench bench{.backend = device.backend,
                     .device = device.name,
                     .dtype = dtype.value_or(usual_dtype(device.backend, checkpoint.weights).dtype),
                     .hardware = table.hardware,
                     .planned_model = table.model,
                     .options = options};
  add_pair(table, bench);
  with_ops(device, bench.dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    DecodingPair<T> pair(*ops, options.model, std::move(checkpoint), /*drafts=*/true);
    bench.remarks.insert(bench.remarks.end(), pair.remarks().begin(), pair.remarks().end());
    TablePlayer<T>(table, options, on_prompt, bench, device, pair, *tokenizer).play(prompts);
  });
  require_played(bench);
  return bench;
}

}  // namespace versieve::engine
