#include "engine/run/speculate/reference.h"

#include <algorithm>

namespace versieve::engine {

// A lossy choice's own options are none of the text that it departs from.
Strategy reference_of(const Strategy& strategy) {
  const bool is_nsa = strategy.attention == AttentionMethod::kNsa;
  return {.attention = is_nsa ? AttentionMethod::kNsa : AttentionMethod::kDense,
          .schedule = strategy.schedule,
          .topk = strategy.topk,
          .sampling = strategy.sampling,
          .form = strategy.form};
}

bool is_of_one_text(const Strategy& first, std::span<const GuardMove> moves,
                    std::span<const Strategy> ranked) {
  return std::all_of(moves.begin(), moves.end(), [&](const GuardMove& move) {
    return reference_of(ranked[static_cast<std::size_t>(move.index)]) == reference_of(first);
  });
}

}  // namespace versieve::engine
