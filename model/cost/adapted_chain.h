// A chain whose length follows what is accepted (model/words/chain_length.h): how often it drafts
// how much, and what its steps yield, by the tokens of chains of fixed length. A step's acceptance
// is taken to be independent of the step's before it (an assumption: passages differ, and the
// length follows them, so that such a chain yields somewhat more than is said here).
#pragma once

#include <cstdint>
#include <vector>

#include "model/cost/acceptance.h"

namespace versieve {

// A chain of so many drafted tokens.
DraftChoice chain_of(std::int64_t length);
// Share of the steps that draft 1, 2, … tokens, up to the strategy's, in the long run.
// REQUIRES: strategy.adapts_length, a model with evidence.
std::vector<double> adapted_lengths(const AcceptanceModel& model, const Strategy& strategy,
                                    std::int64_t context_low, std::int64_t context_high);
// Tokens a step, of lengths so shared out. accepted_tokens gives these for such a strategy.
AcceptedTokens adapted_tokens(const AcceptanceModel& model, const Strategy& strategy,
                              std::int64_t context_low, std::int64_t context_high);

}  // namespace versieve
