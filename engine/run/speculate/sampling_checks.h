// Which choices of sampling contradict each other or would change nothing: for one request and for
// many.
#pragma once

#include <span>
#include <string>

#include "engine/run/speculate/generation.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// What a command says of sampling, beside its strategies.
struct SamplingSettings {
  bool draws = false;  // a temperature above 0, of any request
  bool alike = true;   // all requests have the same
  kernels::Truncation truncation = {};
  kernels::SigmoidEnds sigmoid = {};
  bool adapts_length = false;
  bool compares_ar = false;
};

// Throws Error(kUsage) for numbers that cannot be (check_truncation, check_sigmoid), for cuts where
// all is greedy, for ends that no strategy's sigmoids have, for lengths where no chain is drafted,
// and for a strategy's sampler that cannot run so (sampling_refusal); where requests differ in
// their temperature each is asked on its own, but for cuts.
void check_sampling(const SamplingSettings& settings, std::span<const Strategy> strategies);
// Throws Error(kUsage) where texts are compared with plain decoding token for token, and draws are
// not coupled with its own.
void check_comparable(const SamplingSettings& settings, std::span<const Strategy> strategies);
// Why the strategy's sampler cannot run at that temperature and with those cuts, or an empty text.
std::string sampling_refusal(const GenerateOptions& options);

}  // namespace versieve::engine
