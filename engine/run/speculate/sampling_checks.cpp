#include "engine/run/speculate/sampling_checks.h"

#include <algorithm>

#include "engine/run/speculate/acceptance.h"
#include "model/words/error.h"

namespace versieve::engine {

void check_sampling(const SamplingSettings& settings, std::span<const Strategy> strategies) {
  check_truncation(settings.truncation);
  check_sigmoid(settings.sigmoid);
  if (settings.truncation.cuts() && !settings.draws) {
    throw Error(ExitCode::kUsage,
                "top-k, top-p and min-p cut what is sampled: give a temperature above 0");
  }
  const bool has_sigmoid = std::any_of(strategies.begin(), strategies.end(), [](const Strategy& s) {
    return s.sampling == SamplingAlgorithm::kSigmoid;
  });
  if (!has_sigmoid && settings.sigmoid != kernels::SigmoidEnds{}) {
    throw Error(ExitCode::kUsage,
                "sigmoid-alpha and sigmoid-beta are of sampling=sigmoid, which no strategy names");
  }
  for (const Strategy& s : strategies) {
    if (settings.adapts_length && !s.draft.speculates()) {
      throw Error(ExitCode::kUsage, std::string("adapt-gamma says how much a chain drafts, and ") +
                                        name_of(s.attention) + "/ar drafts nothing");
    }
    if (settings.alike || settings.truncation.cuts()) {
      const std::string reason = sampling_refusal({.strategy = s,
                                                   .temperature = settings.draws ? 1.0 : 0.0,
                                                   .truncation = settings.truncation});
      if (!reason.empty()) {
        throw Error(ExitCode::kUsage, "strategy '" + s.text() + "': " + reason);
      }
    }
  }
}

void check_comparable(const SamplingSettings& settings, std::span<const Strategy> strategies) {
  for (const Strategy& strategy : strategies) {
    if (settings.compares_ar && settings.draws && !samples_coupled(strategy)) {
      throw Error(ExitCode::kUsage,
                  "compare-ar above temperature 0 needs sampling=coupled, the default: by other "
                  "samplers speculative and autoregressive text are equal in distribution, not "
                  "token for token");
    }
  }
}

std::string sampling_refusal(const GenerateOptions& options) {
  const Strategy& strategy = options.strategy;
  const bool draws = options.temperature > 0.0;
  if (strategy.sampling == SamplingAlgorithm::kGreedy && draws) {
    return "sampling=greedy is for temperature 0";
  }
  if (strategy.sampling == SamplingAlgorithm::kCoupled && !draws) {
    return "sampling=coupled needs a temperature above 0: at 0 the largest logit decides";
  }
  if (options.truncation.cuts() && draws && samples_coupled(strategy)) {
    return "top-k, top-p and min-p need sampling=exact or sampling=baseline: coupled draws are of "
           "all tokens";
  }
  if (strategy.sampling == SamplingAlgorithm::kSigmoid && !draws) {
    return "sampling=sigmoid needs a temperature above 0: at 0 the largest logit decides";
  }
  return {};
}

}  // namespace versieve::engine
