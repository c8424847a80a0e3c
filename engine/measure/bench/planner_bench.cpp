#include "engine/measure/bench/planner_bench.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <utility>

#include "engine/io/pair_identity.h"
#include "engine/io/tokenizer/tokenizer.h"
#include "engine/measure/sweep/text_windows.h"
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
    return pair_.generator().refusal(options_of(strategy));
  }

  // None: the prompt's answer ends before its first step.
  std::optional<PromptPlay> play(const PlayedBucket& bucket, const PlayedPrompt& prompt) {
    acceptance_ = prompt.acceptance.get();
    const bool known = read(prompt.tokens);
    if (!known) {
      references_.clear();
      if (acceptance_ == nullptr && !add_references(bucket.runs)) {
        prompt_.clear();
        return {};
      }
    }
    warm_up(bucket.runs, known);
    PromptPlay out{.prompt = prompt.name,
                   .tokens = static_cast<std::int64_t>(prompt.tokens.size()),
                   .form = prompt.form,
                   .grows = std::any_of(
                       bucket.runs.begin(), bucket.runs.end(),
                       [this](const PlayedRun& run) { return request_of(run).stages.size() > 1; }),
                   .runs = std::vector<RunPlay>(bucket.runs.size())};
    for (std::int64_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = 0; i < bucket.runs.size(); ++i) {
        // There and back, so that nobody always follows the same neighbour.
        const std::size_t at = round % 2 == 0 ? i : bucket.runs.size() - 1 - i;
        add(generated(bucket.runs[at]), out.runs[at]);
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
            .eos = options_.synthetic ? std::vector<std::int32_t>() : pair_.eos(),
            .records_steps = on_gpu_,
            .acceptance = acceptance_};
  }

  // True where the pair has read that prompt already, for the runs of one bucket.
  bool read(const TokenIds& tokens) {
    if (tokens == prompt_) {
      return true;
    }
    pair_.generator().prefill(tokens);
    pair_.generator().reserve(options_.max_new_tokens);
    prompt_ = tokens;
    return false;
  }

  // Now, so that nothing else runs between what is timed. False where an answer ends before its
  // first step.
  bool add_references(const std::vector<PlayedRun>& runs) {
    if (reference_of_run(runs.front().first()).steps == 0) {
      return false;
    }
    for (const PlayedRun& run : runs) {
      if (is_comparable(run.first())) {
        reference_of_run(run.first());
      }
    }
    return true;
  }

  // Whether its text is that of a plain run, of the same seed. Sigmoids accept by another law than
  // any plain decoding samples by.
  bool is_comparable(const Strategy& first) const {
    return acceptance_ == nullptr && (options_.temperature == 0.0 || samples_coupled(first));
  }

  // The buckets that the prompt's context grows through.
  GuardedRequest request_of(const PlayedRun& run) const {
    return guarded_request(run.plan, static_cast<std::int64_t>(prompt_.size()),
                           options_.max_new_tokens);
  }

  struct Made {
    Generation generation;
    std::vector<Strategy> ranked;  // that its moves name
    bool moved = false;            // by the guard
  };
  Made generated(const PlayedRun& run) {
    GuardedRequest request = request_of(run);
    if (!run.is_guarded && request.stages.size() == 1) {
      return {.generation = pair_.generator().run(options_of(run.first())),
              .ranked = std::move(request.ranked)};
    }
    RuntimeGuard guard(run.plan.constants, run.plan.rule, request.stages,
                       static_cast<std::int64_t>(prompt_.size()));
    Generation made = pair_.generator().run_guarded(options_of(run.first()), request.ranked, guard);
    return {.generation = std::move(made),
            .ranked = std::move(request.ranked),
            .moved = guard.transitions() > 0};
  }

  // Whole runs, untimed, until none of them makes a recording: one made late may have had memory
  // released that earlier ones name. On a prompt that was read before, under another acceptance,
  // only the guards' runs, which that may lead to other tuples.
  void warm_up(const std::vector<PlayedRun>& runs, bool knows_prompt) {
    if (!on_gpu_) {
      return;
    }
    bool recorded = true;
    for (int round = 0; recorded && round < kMostWarmUps; ++round) {
      recorded = false;
      for (const PlayedRun& run : runs) {
        recorded |=
            (run.is_guarded || !knows_prompt) && generated(run).generation.record_seconds > 0.0;
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

  void add(const Made& run, RunPlay& out) {
    const Generation& made = run.generation;
    const Strategy& first = run.ranked.front();
    out.tokens_per_s.push_back(made.tokens_per_second());
    out.step_us.push_back(1e6 * made.decode_seconds() / static_cast<double>(made.steps));
    out.tokens = static_cast<std::int64_t>(made.tokens.size()) - 1;
    out.steps = made.steps;
    out.yielded = made.accepted_per_step() * static_cast<double>(made.steps);
    out.looping = is_looping(made.tokens);
    out.moved |= run.moved;
    out.recorded = made.recorded;
    out.record_s += made.record_seconds;
    if (!is_comparable(first) || out.divergence || !is_of_one_text(first, made.moves, run.ranked)) {
      return;
    }
    out.reference = reference_of(first);
    out.divergence = first_divergence(made, reference_of_run(first));
  }

  const PlannerBenchOptions& options_;
  bool on_gpu_;
  DecodingPair<T>& pair_;
  TokenIds prompt_;                                  // read
  const SyntheticAcceptance* acceptance_ = nullptr;  // of it
  std::map<std::string, Generation> references_;     // of it, by schedule
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
  // [bucket], at most `longest` tokens each.
  using PromptsOf =
      std::function<std::vector<PlayedPrompt>(const ContextBucket& bucket, std::int64_t longest)>;

  TablePlayer(const PlanTable& table, const PlannerBenchOptions& options,
              const std::function<void(const PlannerProgress&)>& on_prompt, PlannerBench& bench,
              const ComputeDevice& device, DecodingPair<T>& pair)
      : table_(table),
        options_(options),
        on_prompt_(on_prompt),
        bench_(bench),
        pair_(pair),
        player_(options, device, pair) {}

  void play(const PromptsOf& prompts_of) {
    const std::int64_t longest = pair_.positions() - options_.max_new_tokens - kDeepestTree;
    for (const std::int64_t index : asked_buckets(table_, options_)) {
      const ContextBucket& range = table_.buckets[static_cast<std::size_t>(index)];
      std::vector<PlayedPrompt> prompts = prompts_of(range, longest);
      const PlayedBucket bucket = bucket_of(index, prompts);
      for (const PlayedCell& cell : bucket.cells) {
        if (!cell.unplayed_because.empty()) {
          bench_.unplayed.push_back({bucket.range, cell.precision, cell.unplayed_because});
        }
      }
      if (bucket.is_played()) {
        leave_out_lacking(bucket, prompts);
        play_bucket(bucket, prompts);
      }
    }
  }

 private:
  PlayedBucket bucket_of(std::int64_t index, const std::vector<PlayedPrompt>& prompts) {
    CellRequest request{.bucket = index,
                        .candidates = options_.candidates,
                        .settings = options_.sweeps_guard ? one_factor_settings(table_.guard)
                                                          : std::vector<VariedGuard>()};
    for (const PlayedPrompt& prompt : prompts) {
      request.longest = std::max(request.longest, static_cast<std::int64_t>(prompt.tokens.size()) +
                                                      options_.max_new_tokens);
    }
    return played_bucket(table_, options_.classes.empty() ? table_.classes : options_.classes,
                         request, [&](const Strategy& strategy) {
                           const std::string reason = player_.refusal(strategy);
                           return reason.empty() ? lacking_because(strategy, prompts) : reason;
                         });
  }

  // Where synthetic acceptance knows it along none of the texts.
  static std::string lacking_because(const Strategy& strategy,
                                     const std::vector<PlayedPrompt>& prompts) {
    std::string reason;
    for (const PlayedPrompt& prompt : prompts) {
      reason = prompt.acceptance ? prompt.acceptance->lacking_because(strategy) : "";
      if (reason.empty()) {
        return {};
      }
    }
    return reason;
  }

  // Texts along which synthetic acceptance knows not all that plays.
  void leave_out_lacking(const PlayedBucket& bucket, std::vector<PlayedPrompt>& prompts) {
    const auto lacks = [&](const PlayedPrompt& prompt) {
      return prompt.acceptance &&
             std::any_of(bucket.runs.begin(), bucket.runs.end(),
                         [&](const PlayedRun& run) { return !lacking_tuple(run, prompt).empty(); });
    };
    const auto end = std::remove_if(prompts.begin(), prompts.end(), lacks);
    if (end != prompts.end()) {
      bench_.remarks.push_back(std::to_string(prompts.end() - end) + " texts of " +
                               name_of(bucket.range) +
                               " are left out: not all tuples that play are recorded along them");
    }
    prompts.erase(end, prompts.end());
  }

  static std::string lacking_tuple(const PlayedRun& run, const PlayedPrompt& prompt) {
    for (const Strategy& strategy : run.tuples()) {
      if (std::string reason = prompt.acceptance->lacking_because(strategy); !reason.empty()) {
        return reason;
      }
    }
    return {};
  }

  void play_bucket(const PlayedBucket& bucket, const std::vector<PlayedPrompt>& prompts) {
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
      bench_.unplayed.push_back({bucket.range,
                                 {},
                                 options_.synthetic ? "no text whose acceptance is known begins "
                                                      "there, with all tuples that play"
                                                    : "no prompt reaches it"});
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

void add_geometry(const PlanTable& table, const LlmShape& shape, PlannerBench& bench) {
  const std::string name = bench.options.model.string();
  const std::int64_t proposed = usual_draft(shape).vocab;
  bench.pair = name + " with random weights, its draft of " + std::to_string(proposed) + " tokens";
  if (table.sources && table.sources->pair) {
    bench.planned_pair = text_of(*table.sources->pair);
  }
  if (!bench.planned_pair.empty() || target_name(table.model) != target_name(name) ||
      (table.draft_vocab > 0 && table.draft_vocab != proposed)) {
    bench.remarks.push_back(
        "the table was planned for " +
        (bench.planned_pair.empty() ? table.model : bench.planned_pair) +
        (table.draft_vocab > 0 ? " with a draft of " + std::to_string(table.draft_vocab) + " tokens"
                               : "") +
        ", and " + bench.pair + " plays it");
  }
}

// Random tokens, or the listed prompts.
class Prompts {
 public:
  Prompts(const PlannerBenchOptions& options, const PromptList& list, const LlmShape& shape)
      : options_(options), vocab_(shape.vocab) {
    if (!options.synthetic) {
      tokenizer_ = load_tokenizer(options.model, shape);
      prompts_ = prompt_tokens(list, *tokenizer_, options.model);
    }
  }

  std::vector<PlayedPrompt> of(const ContextBucket& bucket, std::int64_t longest) const {
    if (!options_.synthetic) {
      return prompts_for({.bucket = bucket,
                          .count = options_.prompts_per_bucket,
                          .most = longest,
                          .joins_texts = options_.joins_texts},
                         prompts_, *tokenizer_);
    }
    std::vector<SyntheticText> texts =
        options_.synthetic->texts(bucket, options_.prompts_per_bucket);
    const auto too_long = [longest](const SyntheticText& t) { return t.context_len > longest; };
    texts.erase(std::remove_if(texts.begin(), texts.end(), too_long), texts.end());
    return random_prompts(texts, options_.prompts_per_bucket, vocab_, options_.seed);
  }

 private:
  const PlannerBenchOptions& options_;
  std::int64_t vocab_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::vector<PromptTokens> prompts_;
};

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
  if (!options.synthetic && geometry_of(options.model)) {
    refuse("'" + options.model.string() +
           "' is a geometry with random weights, whose own acceptance means nothing: play it with "
           "synthetic acceptance (--acceptance recorded or law), or give a pair's folder");
  }
  if (options.synthetic && !options.prompts.empty()) {
    refuse("under synthetic acceptance prompts are random tokens: give no prompts");
  }
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
  const PromptList list = options.synthetic ? PromptList() : listed_prompts(options.prompts);
  PlannerBench bench{.backend = device.backend,
                     .device = device.name,
                     .hardware = table.hardware,
                     .planned_model = table.model,
                     .options = options,
                     .remarks = options.synthetic ? std::vector<std::string>()
                                                  : passed_over_prompts(options.prompts)};
  const auto play = [&]<class T>(DecodingPair<T>& pair, const Prompts& prompts) {
    bench.remarks.insert(bench.remarks.end(), pair.remarks().begin(), pair.remarks().end());
    TablePlayer<T>(table, options, on_prompt, bench, device, pair)
        .play([&prompts](const ContextBucket& bucket, std::int64_t longest) {
          return prompts.of(bucket, longest);
        });
  };
  if (const std::optional<LlmShape> geometry = geometry_of(options.model)) {
    const Prompts prompts(options, list, *geometry);
    bench.dtype = dtype.value_or(usual_dtype_of_random(device.backend));
    add_geometry(table, *geometry, bench);
    with_ops(device, bench.dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
      DecodingPair<T> pair(*ops, *geometry, options.seed);
      play(pair, prompts);
    });
  } else {
    Checkpoint checkpoint = load_target(options.model);
    const Prompts prompts(options, list, checkpoint.shape);
    bench.dtype = dtype.value_or(usual_dtype(device.backend, checkpoint.weights).dtype);
    add_pair(table, bench);
    with_ops(device, bench.dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
      DecodingPair<T> pair(*ops, options.model, std::move(checkpoint), /*drafts=*/true);
      play(pair, prompts);
    });
  }
  require_played(bench);
  return bench;
}

}  // namespace versieve::engine
