#include "engine/run/speculate/reference.h"

#include <algorithm>

namespace versieve::engine {

Strategy reference_of(const Strategy& strategy) {
  Strategy plain = strategy;
  if (strategy.attention == AttentionMethod::kSpecAttn ||
      strategy.attention == AttentionMethod::kResa) {
    plain.attention = AttentionMethod::kDense;
  }
  plain.draft = {};
  plain.order = Traversal::kBfs;
  plain.group_size = 1;
  plain.group_mode = GroupMode::kExact;
  return plain;
}

bool can_be_guarded(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kNsa ||
         strategy.attention == AttentionMethod::kDense;
}

bool is_of_one_text(const Strategy& first, std::span<const GuardMove> moves,
                    std::span<const Strategy> ranked) {
  return std::all_of(moves.begin(), moves.end(), [&](const GuardMove& move) {
    return reference_of(ranked[static_cast<std::size_t>(move.index)]) == reference_of(first);
  });
}

}  // namespace versieve::engine
