#include "engine/speculate/generate_request.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/io/checkpoint.h"
#include "engine/io/layer_map_file.h"
#include "engine/io/tokenizer.h"
#include "engine/model/compute_device.h"
#include "engine/model/load.h"
#include "model/error.h"

namespace versieve::engine {
namespace {

void check_request(const GenerateRequest& request) {
  if (request.strategies.empty()) {
    throw Error(ExitCode::kUsage, "generate needs a strategy, for example nsa/d6k8n64/bfs/c1/F*");
  }
  if (!std::isfinite(request.temperature) || request.temperature < 0.0) {
    throw Error(ExitCode::kUsage, "the temperature must be a number from 0 up");
  }
  if (request.max_new_tokens < 1) {
    throw Error(ExitCode::kUsage, "max-new-tokens must be at least 1");
  }
  if (request.compares_ar && request.temperature > 0.0) {
    throw Error(ExitCode::kUsage,
                "compare-ar needs temperature 0: above it, speculative and autoregressive text are "
                "equal in distribution, not token for token");
  }
}

GenerateOptions options_of(const GenerateRequest& request, const ComputeDevice& device,
                           const Strategy& strategy, const std::vector<std::int32_t>& eos) {
  return {.strategy = strategy,
          .max_new_tokens = request.max_new_tokens,
          .temperature = request.temperature,
          .seed = request.seed,
          .eos = eos,
          .records_steps = request.uses_graphs && device.backend == "cuda"};
}

// Autoregressive decoding with the strategy's attention and schedule.
Strategy reference_of(const Strategy& strategy) {
  Strategy plain = strategy;
  if (strategy.attention == AttentionMethod::kSpecAttn) {
    plain.attention = AttentionMethod::kDense;
  }
  plain.draft = {};
  plain.order = Traversal::kBfs;
  plain.group_size = 1;
  plain.group_mode = GroupMode::kExact;
  return plain;
}

std::vector<Strategy> parsed(const std::vector<std::string>& texts) {
  std::vector<Strategy> strategies;
  for (const std::string& text : texts) {
    strategies.push_back(Strategy::parse(text));
  }
  return strategies;
}

// How close the reference's choice was where a text left it: decoded once more, with gaps.
template <class T>
void measure_gap(GenerateOptions options, Generator<T>& generator, Divergence& divergence) {
  options.max_new_tokens = divergence.index + 1;
  options.measures_gaps = true;
  const Generation measured = generator.run(options);
  if (static_cast<std::size_t>(divergence.index) < measured.gaps.size()) {
    divergence.logit_gap = measured.gaps[static_cast<std::size_t>(divergence.index)];
  }
}

template <class T>
void run_strategies(const GenerateRequest& request, const ComputeDevice& device,
                    const std::vector<Strategy>& strategies, Generator<T>& generator,
                    const ByteTokenizer& tokenizer, const std::vector<std::int32_t>& eos,
                    GenerateReport& report) {
  std::map<std::string, Generation> references;  // one a schedule: decoding is deterministic
  for (const Strategy& strategy : strategies) {
    StrategyRun run{.strategy = strategy,
                    .generation = generator.run(options_of(request, device, strategy, eos))};
    run.text = tokenizer.decode(run.generation.tokens);
    if (request.compares_ar) {
      const Strategy plain = reference_of(strategy);
      if (references.count(plain.text()) == 0) {
        references[plain.text()] = generator.run(options_of(request, device, plain, eos));
      }
      run.reference = references[plain.text()];
      run.divergence = first_divergence(run.generation, *run.reference);
      if (run.divergence) {
        measure_gap(options_of(request, device, plain, eos), generator, *run.divergence);
      }
    }
    report.runs.push_back(std::move(run));
  }
}

template <class T>
GenerateReport run_on(const GenerateRequest& request, const std::vector<Strategy>& strategies,
                      const ComputeDevice& device, std::unique_ptr<kernels::Ops<T>> ops) {
  const std::string prompt = read_prompt(request.prompt_file);
  const Checkpoint checkpoint = load_target(request.model);
  const ByteTokenizer tokenizer = ByteTokenizer::load(request.model, checkpoint.shape);
  const bool drafts = std::any_of(strategies.begin(), strategies.end(),
                                  [](const Strategy& s) { return s.draft.speculates(); });
  const std::filesystem::path draft_folder = request.model / "draft";
  std::optional<DraftCheckpoint> draft_checkpoint;
  std::optional<Target<T>> draft_model;
  std::error_code ignored;
  if (drafts && std::filesystem::exists(draft_folder, ignored)) {
    if (is_draft_model(draft_folder)) {
      draft_model.emplace(
          make_target(*ops, load_draft_model(draft_folder, checkpoint.shape), nullptr));
    } else {
      draft_checkpoint = load_draft(draft_folder, checkpoint.shape);
    }
  }
  Target<T> target = make_target(*ops, checkpoint, draft_checkpoint ? &*draft_checkpoint : nullptr);
  std::optional<Draft<T>> draft;
  if (draft_checkpoint) {
    draft.emplace(make_draft(*ops, *draft_checkpoint, target));
  }
  Generator<T> generator(*ops, target, draft ? &*draft : nullptr,
                         draft_model ? &*draft_model : nullptr);
  if (draft_model && has_layer_map(request.model)) {
    generator.set_layer_map(
        read_layer_map(request.model, checkpoint.shape, draft_model->shape().layers).draft_layer);
  }
  for (const Strategy& strategy : strategies) {
    const std::string reason =
        generator.refusal(options_of(request, device, strategy, checkpoint.special.eos));
    if (!reason.empty()) {
      throw Error(ExitCode::kAnswerNo, "strategy '" + strategy.text() + "': " + reason);
    }
  }
  const std::vector<std::int32_t> tokens = tokenizer.encode(prompt);
  generator.prefill(tokens);
  GenerateReport report{.backend = device.backend,
                        .device = device.name,
                        .dtype = request.dtype,
                        .prompt_tokens = static_cast<std::int64_t>(tokens.size()),
                        .prefill_seconds = generator.prefill_seconds()};
  run_strategies(request, device, strategies, generator, tokenizer, checkpoint.special.eos, report);
  return report;
}

}  // namespace

GenerateReport run_request(const GenerateRequest& request) {
  check_request(request);
  const std::vector<Strategy> strategies = parsed(request.strategies);
  const ComputeDevice device = compute_device(request.backend, request.threads);
  return with_ops(device, request.dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    return run_on<T>(request, strategies, device, std::move(ops));
  });
}

}  // namespace versieve::engine
