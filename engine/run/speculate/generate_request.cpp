#include "engine/run/speculate/generate_request.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "engine/io/checkpoint.h"
#include "engine/io/prompt/prompt.h"
#include "engine/run/model/compute_device.h"
#include "engine/run/model/load.h"
#include "engine/run/speculate/acceptance.h"
#include "engine/run/speculate/decoding_pair.h"
#include "engine/run/speculate/reference.h"
#include "engine/run/speculate/sampling_checks.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

std::vector<Strategy> strategies_of(const GenerateRequest& request) {
  std::vector<Strategy> strategies;
  for (const std::string& text : request.strategies) {
    strategies.push_back(Strategy::parse(text));
    strategies.back().adapts_length |= request.adapts_length;
  }
  return strategies;
}

SamplingSettings settings_of(const GenerateRequest& request) {
  return {.draws = request.temperature > 0.0,
          .truncation = request.truncation,
          .sigmoid = request.sigmoid,
          .adapts_length = request.adapts_length,
          .compares_ar = request.compares_ar};
}

void check_sampling(const GenerateRequest& request, const std::vector<Strategy>& strategies) {
  check_temperature(request.temperature);
  SamplingSettings settings = settings_of(request);
  if (request.plan) {  // its tuples may be of any sampler
    check_sigmoid(settings.sigmoid);
    settings.sigmoid = {};
  }
  check_sampling(settings, strategies);
  if (request.adapts_length && request.plan) {
    throw Error(ExitCode::kUsage,
                "adapt-gamma is for a strategy: a table's guard says how much its tuples draft");
  }
}

void check_request(const GenerateRequest& request) {
  const PromptFiles& prompt = request.prompt;
  if ((prompt.text.empty() ? 0 : 1) + (prompt.tokens.empty() ? 0 : 1) +
          (prompt.messages.empty() ? 0 : 1) !=
      1) {
    throw Error(ExitCode::kUsage,
                "generate needs one prompt: --prompt-file, --prompt-tokens or --messages");
  }
  if (request.strategies.empty() != request.plan.has_value()) {
    throw Error(ExitCode::kUsage,
                request.plan ? "generate takes a strategy or a table, not both"
                             : "generate needs a strategy, for example nsa/d6k8n64/bfs/c1/F*, or a "
                               "planner table");
  }
  check_sampling(request, strategies_of(request));
  const bool is_geometry = geometry_of(request.model).has_value();
  if (is_geometry && !request.given) {
    throw Error(ExitCode::kUsage, "'" + request.model.string() +
                                      "' is a geometry with random weights, whose own acceptance "
                                      "means nothing: give synthetic acceptance, or a folder");
  }
  if (is_geometry && prompt.tokens.empty()) {
    throw Error(ExitCode::kUsage, "a geometry has no tokenizer: give --prompt-tokens");
  }
  if (request.given && request.compares_ar) {
    throw Error(ExitCode::kUsage,
                "under synthetic acceptance the text means nothing: it is compared with none");
  }
  if (request.max_new_tokens < 1) {
    throw Error(ExitCode::kUsage, "max-new-tokens must be at least 1");
  }
}

// What a request comes to once its prompt is read.
struct Setting {
  std::vector<std::int32_t> eos;  // none under given acceptance
  std::shared_ptr<const SyntheticAcceptance> acceptance;
};

GenerateOptions options_of(const GenerateRequest& request, const ComputeDevice& device,
                           const Strategy& strategy, const Setting& setting) {
  return {.strategy = strategy,
          .max_new_tokens = request.max_new_tokens,
          .temperature = request.temperature,
          .seed = request.seed,
          .truncation = request.truncation,
          .sigmoid = request.sigmoid,
          .eos = setting.eos,
          .records_steps = request.uses_graphs && device.backend == Backend::kCuda,
          .acceptance = setting.acceptance.get()};
}

// What each strategy, and what it is compared with, decodes beforehand on a GPU, untimed. A
// process's first run of 256 tokens took 8 % longer than the same run later: kernels are loaded
// when they first run, and clocks rise from idle. Recordings are made here too: a later strategy
// may have had the memory released that an earlier one's name, hence up to three rounds.
template <class T>
void warm_up(const GenerateRequest& request, const ComputeDevice& device,
             std::vector<Strategy> strategies, const Setting& setting, Generator<T>& generator) {
  constexpr std::int64_t kTokens = 32;
  constexpr std::chrono::milliseconds kLeast(100);
  if (device.backend != Backend::kCuda) {
    return;
  }
  if (request.compares_ar) {
    for (std::size_t i = 0, count = strategies.size(); i < count; ++i) {
      strategies.push_back(reference_of(strategies[i]));
    }
  }
  constexpr int kMostRecordingRounds = 3;
  generator.reserve(request.max_new_tokens);
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  bool recorded = true;
  for (int round = 0; (recorded && round < kMostRecordingRounds) ||
                      std::chrono::steady_clock::now() - begin < kLeast;
       ++round) {
    recorded = false;
    for (const Strategy& strategy : strategies) {
      GenerateOptions options = options_of(request, device, strategy, setting);
      options.max_new_tokens = std::min(options.max_new_tokens, kTokens);
      recorded |= generator.run(options).record_seconds > 0.0;
    }
  }
}

// Compares with decoding of the same schedule; `references` holds what was decoded so far, since
// decoding is deterministic.
template <class T>
class Comparison {
 public:
  Comparison(const GenerateRequest& request, const ComputeDevice& device, const Setting& setting,
             Generator<T>& generator)
      : request_(request), device_(device), setting_(setting), generator_(generator) {}

  void compare(StrategyRun& run) {
    const Strategy plain = reference_of(run.strategy);
    const GenerateOptions options = options_of(request_, device_, plain, setting_);
    if (references_.count(plain.text()) == 0) {
      references_[plain.text()] = generator_.run(options);
    }
    run.reference = references_[plain.text()];
    run.divergence = first_divergence(run.generation, *run.reference);
    if (run.divergence) {
      measure_gap(options, generator_, *run.divergence);
    }
  }

 private:
  const GenerateRequest& request_;
  const ComputeDevice& device_;
  const Setting& setting_;
  Generator<T>& generator_;
  std::map<std::string, Generation> references_;  // by schedule
};

template <class T>
StrategyRun run_plan(const GenerateRequest& request, const ComputeDevice& device,
                     const GuardedRequest& guarded, std::int64_t prompt_tokens,
                     const Setting& setting, Generator<T>& generator) {
  const Strategy& first = guarded.ranked.front();
  const GenerateOptions options = options_of(request, device, first, setting);
  StrategyRun run{.strategy = first, .guarded = GuardedRun{request.plan->rule, guarded}};
  if (!first.draft.speculates() && guarded.stages.size() == 1) {
    run.generation = generator.run(options);  // nothing drafted is too little accepted
    return run;
  }
  RuntimeGuard guard(request.plan->constants, request.plan->rule, guarded.stages, prompt_tokens);
  run.generation = generator.run_guarded(options, guarded.ranked, guard);
  return run;
}

struct Prompt {
  TokenIds tokens;
  std::unique_ptr<const Tokenizer> tokenizer;  // null: there is none, and there will be no text
  std::vector<std::string> remarks;
};

// Ids need no tokenizer, so one that is missing or not computed here does no harm to them.
Prompt read_ids(const GenerateRequest& request, const LlmShape& shape) {
  Prompt prompt{.tokens = read_token_file(request.prompt.tokens, shape.vocab)};
  try {
    prompt.tokenizer = load_tokenizer(request.model, shape);
  } catch (const Error& error) {
    prompt.remarks.push_back(std::string("there is no text, only tokens: ") + error.what());
  }
  return prompt;
}

Prompt read_prompt_of(const GenerateRequest& request, const LlmShape& shape) {
  if (geometry_of(request.model)) {
    return {.tokens = read_token_file(request.prompt.tokens, shape.vocab)};
  }
  if (!request.prompt.tokens.empty()) {
    return read_ids(request, shape);
  }
  Prompt prompt{.tokenizer = load_tokenizer(request.model, shape)};
  prompt.tokens = encode_prompt(request.prompt, request.model, *prompt.tokenizer);
  prompt.remarks = prompt.tokenizer->remarks();
  if (prompt.tokens.empty()) {
    throw Error(ExitCode::kBadInput, request.prompt.text.string() + ": the prompt has no tokens");
  }
  return prompt;
}

// Texts, and what they are compared with.
template <class T>
void finish_runs(const GenerateRequest& request, const ComputeDevice& device,
                 Generator<T>& generator, const Prompt& prompt, const Setting& setting,
                 GenerateReport& report) {
  Comparison<T> comparison(request, device, setting, generator);
  for (StrategyRun& run : report.runs) {
    if (prompt.tokenizer != nullptr && !request.given) {
      run.text = prompt.tokenizer->decode_after(prompt.tokens, run.generation.tokens);
    }
    const std::span<const Strategy> ranked =
        run.guarded ? std::span<const Strategy>(run.guarded->request.ranked)
                    : std::span<const Strategy>();
    if (request.compares_ar && is_of_one_text(run.strategy, run.generation.moves, ranked)) {
      comparison.compare(run);
    }
  }
}

// Why the strategy cannot run here, or an empty text.
template <class T>
std::string refusal_of(const GenerateRequest& request, const ComputeDevice& device,
                       const Strategy& strategy, const Setting& setting,
                       const Generator<T>& generator) {
  const std::string reason = generator.refusal(options_of(request, device, strategy, setting));
  if (reason.empty() && setting.acceptance && strategy.drafts_itself) {
    return "synthetic acceptance is that of the pair's draft, and draft=resa takes none";
  }
  if (reason.empty() && setting.acceptance && strategy.adapts_length) {
    return "synthetic acceptance is of chains of one length, and gamma=adapt drafts many";
  }
  return reason.empty() && setting.acceptance ? setting.acceptance->lacking_because(strategy)
                                              : reason;
}

// Throws Error(kAnswerNo) for the first strategy that cannot run here.
template <class T>
void require_runnable(const GenerateRequest& request, const ComputeDevice& device,
                      std::span<const Strategy> strategies, const Setting& setting,
                      const Generator<T>& generator) {
  for (const Strategy& strategy : strategies) {
    const std::string reason = refusal_of(request, device, strategy, setting, generator);
    if (!reason.empty()) {
      throw Error(ExitCode::kAnswerNo, "strategy '" + strategy.text() + "': " + reason);
    }
  }
}

// The table's tuples that run here. Throws Error(kAnswerNo) where none of the class does.
template <class T>
GuardedRequest guarded_of(const GenerateRequest& request, const ComputeDevice& device,
                          std::int64_t prompt_tokens, const Setting& setting,
                          const Generator<T>& generator) {
  GuardedRequest guarded = guarded_request(
      *request.plan, prompt_tokens, request.max_new_tokens, [&](const Strategy& strategy) {
        return refusal_of(request, device, strategy, setting, generator);
      });
  check_comparable(settings_of(request), guarded.ranked);
  return guarded;
}

// A sentence a reason, with the best tuple that it leaves out.
std::vector<std::string> left_out_remarks(const GuardedRequest& guarded) {
  std::vector<std::string> remarks;
  std::set<std::string> known;
  for (const LeftOutTuple& tuple : guarded.left_out) {
    if (known.insert(tuple.reason).second) {
      remarks.push_back("the table's '" + tuple.strategy.text() + "' is left out: " + tuple.reason);
    }
  }
  return remarks;
}

// Throws Error(kAnswerNo) where nobody knows any acceptance behind such a prompt.
Setting setting_of(const GenerateRequest& request, const std::vector<std::int32_t>& eos,
                   std::int64_t prompt_tokens) {
  if (!request.given) {
    return {.eos = eos, .acceptance = {}};
  }
  Setting setting{.eos = {}, .acceptance = request.given->behind(prompt_tokens)};
  if (!setting.acceptance) {
    throw Error(ExitCode::kAnswerNo, "no text's acceptance is known behind a prompt of " +
                                         std::to_string(prompt_tokens) +
                                         " tokens: " + request.given->source);
  }
  return setting;
}

template <class T>
GenerateReport run_on(const GenerateRequest& request, const ComputeDevice& device, Dtype dtype,
                      DecodingPair<T>& pair, const Prompt& prompt,
                      std::vector<Strategy> strategies) {
  const TokenIds& tokens = prompt.tokens;
  const std::int64_t prompt_tokens = static_cast<std::int64_t>(tokens.size());
  const Setting setting = setting_of(request, pair.eos(), prompt_tokens);
  Generator<T>& generator = pair.generator();
  std::optional<GuardedRequest> guarded;
  if (request.plan) {
    guarded = guarded_of(request, device, prompt_tokens, setting, generator);
    strategies = guarded->ranked;
  }
  require_runnable<T>(request, device, strategies, setting, generator);
  generator.prefill(tokens);
  GenerateReport report{.backend = device.backend,
                        .device = device.name,
                        .dtype = dtype,
                        .prompt_tokens = prompt_tokens,
                        .prefill_seconds = generator.prefill_seconds(),
                        .runs = {},
                        .given = request.given,
                        .remarks = pair.remarks()};
  report.remarks.insert(report.remarks.end(), prompt.remarks.begin(), prompt.remarks.end());
  warm_up(request, device, strategies, setting, generator);
  if (guarded) {
    const std::vector<std::string> left_out = left_out_remarks(*guarded);
    report.remarks.insert(report.remarks.end(), left_out.begin(), left_out.end());
    report.runs.push_back(run_plan(request, device, *guarded, prompt_tokens, setting, generator));
  } else {
    for (const Strategy& strategy : strategies) {
      report.runs.push_back(
          {.strategy = strategy,
           .generation = generator.run(options_of(request, device, strategy, setting))});
    }
  }
  finish_runs(request, device, generator, prompt, setting, report);
  return report;
}

// What runs on which prompt, whoever has the weights: make(ops, drafts) gives the pair.
template <class Make>
GenerateReport run_with(const GenerateRequest& request, const ComputeDevice& device, Dtype dtype,
                        const Prompt& prompt, const Make& make) {
  std::vector<Strategy> strategies = strategies_of(request);
  if (request.plan) {  // a context in no bucket is said before weights are read
    strategies = guarded_request(*request.plan, static_cast<std::int64_t>(prompt.tokens.size()),
                                 request.max_new_tokens)
                     .ranked;
  }
  const bool drafts =
      request.plan || std::any_of(strategies.begin(), strategies.end(), [](const Strategy& s) {
        return s.draft.speculates() && !s.drafts_itself;
      });
  return with_ops(device, dtype, [&]<class T>(std::unique_ptr<kernels::Ops<T>> ops) {
    const std::unique_ptr<DecodingPair<T>> pair = make(*ops, drafts);
    return run_on<T>(request, device, dtype, *pair, prompt, strategies);
  });
}

}  // namespace

GenerateReport run_request(const GenerateRequest& request) {
  check_request(request);
  check_comparable(settings_of(request),
                   strategies_of(request));  // a wrong text is said before anything is loaded
  const ComputeDevice device = compute_device(request.backend, request.threads);
  std::optional<Dtype> dtype;
  if (request.dtype != "auto") {
    dtype = dtype_on(device, request.dtype);  // so is a wrong format
  }
  if (!request.prompt.text.empty()) {
    read_prompt(request.prompt.text);  // and a wrong file
  }
  if (const std::optional<LlmShape> geometry = geometry_of(request.model)) {
    return run_with(request, device, dtype.value_or(usual_dtype_of_random(device.backend)),
                    read_prompt_of(request, *geometry), [&]<class T>(kernels::Ops<T>& ops, bool) {
                      return std::make_unique<DecodingPair<T>>(ops, *geometry, request.seed);
                    });
  }
  Checkpoint checkpoint = load_target(request.model);
  const Prompt prompt = read_prompt_of(request, checkpoint.shape);
  if (!dtype) {
    const UsualDtype usual = usual_dtype(device.backend, checkpoint.weights);
    dtype = usual.dtype;
    if (!usual.remark.empty()) {
      checkpoint.remarks.push_back(request.model.string() + ": " + usual.remark);
    }
  }
  return run_with(request, device, *dtype, prompt, [&]<class T>(kernels::Ops<T>& ops, bool drafts) {
    return std::make_unique<DecodingPair<T>>(ops, request.model, std::move(checkpoint), drafts);
  });
}

}  // namespace versieve::engine
