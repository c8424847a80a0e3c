// Tokens that a bench lets each step of a draft yield, so that times alone differ.
#pragma once

#include <cstdint>
#include <optional>

#include "model/words/strategy.h"

namespace versieve::engine {

// `given`, else `usual` or all that a shallower draft can; 1 of plain decoding.
std::int64_t yield_of(const Strategy& strategy, std::optional<std::int64_t> given,
                      std::int64_t usual);
// Throws Error(kUsage) for fewer than one token, and for more than a step of that strategy can
// yield: its draft's longest path and the bonus token.
void check_yield(const Strategy& strategy, std::optional<std::int64_t> given);

}  // namespace versieve::engine
