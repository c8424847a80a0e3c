// What `versieve generate` does: one prompt, one prefill, any number of strategies, each compared
// with autoregressive decoding if asked; and its report as JSON and text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/prompt/prompt.h"
#include "engine/run/speculate/generate.h"
#include "model/plan/guarded_plan.h"

namespace versieve::engine {

// Acceptance that is given (synthetic_acceptance.h).
struct GivenAcceptance {
  AcceptanceFrom from = AcceptanceFrom::kLaw;
  std::string source;  // whose
  // Behind a prompt of so many tokens; null: nobody knows any there.
  std::function<std::shared_ptr<const SyntheticAcceptance>(std::int64_t context_len)> behind;
};

struct GenerateRequest {
  // Directory: config.json, weights, tokenizer, maybe draft/. Or a geometry's name, for random
  // weights under given acceptance and a prompt of tokens.
  std::filesystem::path model;
  PromptFiles prompt;
  std::vector<std::string> strategies;
  // In their place: the tuples of a planner table, under its guard.
  std::optional<GuardedPlan> plan;
  std::optional<GivenAcceptance> given;  // none: the model's own
  bool compares_ar = false;
  std::int64_t max_new_tokens = 64;
  double temperature = 0.0;
  std::uint64_t seed = 0;
  kernels::Truncation truncation = {};
  kernels::SigmoidEnds sigmoid = {};  // of sampling=sigmoid
  bool adapts_length = false;         // all strategies with gamma=adapt
  std::string backend = "auto";       // cpu, cuda, auto: a GPU if there is one
  // f32, bf16, f64 (cpu); auto: on a GPU bf16 where the weights are halves, else f32
  std::string dtype = "auto";
  int threads = 0;          // of the CPU; 0: all
  bool uses_graphs = true;  // cuda: whole steps in CUDA graphs where they can be
};

// Of a run whose tuple a guard chose.
struct GuardedRun {
  GuardRule rule = GuardRule::kMostPromising;
  GuardedRequest request;
};

struct StrategyRun {
  Strategy strategy;  // under a guard: the first
  Generation generation;
  std::optional<std::string> text;  // none without a tokenizer
  std::optional<GuardedRun> guarded;
  // With compares_ar: the autoregressive run of the same schedule.
  std::optional<Generation> reference;
  std::optional<Divergence> divergence;

  // Whether a strategy that does not claim the autoregressive text kept it is reported all the
  // same.
  bool claims_identity() const { return claims_autoregressive_text(strategy.precision()); }
  bool identical() const { return reference.has_value() && !divergence.has_value(); }
};

struct GenerateReport {
  Backend backend = Backend::kCpu;
  std::string device;
  Dtype dtype = Dtype::kF32;
  std::int64_t prompt_tokens = 0;
  double prefill_seconds = 0.0;
  std::vector<StrategyRun> runs;
  std::optional<GivenAcceptance> given;
  std::vector<std::string> remarks;  // what was odd in the model's files and did no harm

  // Why the answer is "no" (the text of a strategy that claims it is not the autoregressive one),
  // or empty.
  std::string failure() const;
};

// Throws Error: kUsage for a contradictory request, kAnswerNo for a strategy that cannot run on the
// model, kBadInput for model or prompt files, kEnvironment without the GPU asked for.
GenerateReport run_request(const GenerateRequest& request);

// With one strategy its keys stand beside those of the request, with several in `runs`.
nlohmann::json report_json(const GenerateReport& report);
std::string report_text(const GenerateReport& report);

}  // namespace versieve::engine
