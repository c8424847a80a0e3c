#include "model/cost/adapted_chain.h"

#include <algorithm>
#include <cmath>

#include "model/cost/accepted_tokens.h"
#include "model/words/assert.h"
#include "model/words/chain_length.h"

namespace versieve {
namespace {

// Of tokens a step, of what steps tell of one another (an assumption:
// engine/run/speculate/README.md has what it comes to on the byte pair's texts).
constexpr double kDependentSteps = 0.03;

// [i]: of the chain of i + 1 tokens.
std::vector<AcceptedTokens> tokens_by_length(const AcceptanceModel& model, const Strategy& strategy,
                                             std::int64_t low, std::int64_t high) {
  TokensInRange tokens(model, low, high);
  std::vector<AcceptedTokens> out;
  Strategy fixed = strategy;
  fixed.adapts_length = false;
  for (std::int64_t length = 1; length <= strategy.draft.levels(); ++length) {
    fixed.draft = chain_of(length);
    out.push_back(tokens.of(fixed));
  }
  return out;
}

// The chance that all of a chain stay: what its last token adds to the mean. Means of measured
// chains come one by one, so that it is kept from rising with the length.
std::vector<double> whole_chains(const std::vector<AcceptedTokens>& tokens) {
  std::vector<double> out;
  double before = 1.0, least = 1.0;
  for (const AcceptedTokens& t : tokens) {
    least = std::clamp(t.mean - before, 0.0, least);
    before = t.mean;
    out.push_back(least);
  }
  return out;
}

// Where the shares come to rest, from the first chain on.
std::vector<double> shares_of(const std::vector<double>& whole) {
  constexpr int kSteps = 2000;
  const std::int64_t most = static_cast<std::int64_t>(whole.size());
  std::vector<double> share(whole.size(), 0.0), mean(whole.size(), 0.0);
  share[static_cast<std::size_t>(std::min(kFirstChainLength, most) - 1)] = 1.0;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> next(whole.size(), 0.0);
    for (std::int64_t length = 1; length <= most; ++length) {
      const std::size_t at = static_cast<std::size_t>(length - 1);
      next[static_cast<std::size_t>(next_chain_length(length, true, most) - 1)] +=
          share[at] * whole[at];
      next[static_cast<std::size_t>(next_chain_length(length, false, most) - 1)] +=
          share[at] * (1.0 - whole[at]);
    }
    share = std::move(next);
    if (step >= kSteps / 2) {  // periods average out
      std::transform(share.begin(), share.end(), mean.begin(), mean.begin(),
                     [](double s, double sum) { return sum + s / (kSteps - kSteps / 2); });
    }
  }
  return mean;
}

}  // namespace

DraftChoice chain_of(std::int64_t length) {
  return {.depth = length, .width = 1, .nodes = length + 1};
}

std::vector<double> adapted_lengths(const AcceptanceModel& model, const Strategy& strategy,
                                    std::int64_t context_low, std::int64_t context_high) {
  VERSIEVE_ASSERT(strategy.adapts_length && strategy.draft.width == 1, "chains have a length");
  return shares_of(whole_chains(tokens_by_length(model, strategy, context_low, context_high)));
}

AcceptedTokens adapted_tokens(const AcceptanceModel& model, const Strategy& strategy,
                              std::int64_t context_low, std::int64_t context_high) {
  const std::vector<AcceptedTokens> tokens =
      tokens_by_length(model, strategy, context_low, context_high);
  const std::vector<double> share = shares_of(whole_chains(tokens));
  AcceptedTokens out = tokens.back();
  out.mean = out.log_error = out.few_texts_log_error = out.text_log_error = 0.0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    out.mean += share[i] * tokens[i].mean;
    out.log_error += share[i] * tokens[i].log_error;
    out.few_texts_log_error += share[i] * tokens[i].few_texts_log_error;
    out.text_log_error += share[i] * tokens[i].text_log_error;
  }
  out.log_error = std::hypot(out.log_error, kDependentSteps);
  out.source = Provenance::kPredicted;
  return out;
}

}  // namespace versieve
