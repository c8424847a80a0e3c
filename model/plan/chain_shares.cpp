#include "model/plan/chain_shares.h"

#include <algorithm>
#include <cmath>

#include "model/words/assert.h"

namespace versieve {
namespace {

bool differ_by_draft_alone(Strategy a, const Strategy& b) {
  a.draft = b.draft;
  return a == b;
}

Estimate95 between(const Estimate95& a, const Estimate95& b, double at) {
  return {std::lerp(a.value, b.value, at), std::lerp(a.low, b.low, at),
          std::lerp(a.high, b.high, at)};
}

}  // namespace

ChainShares::ChainShares(const std::vector<ChainShare>& rows) {
  for (const ChainShare& row : rows) {
    rows_.push_back({Strategy::parse(row.strategy), row.share});
    VERSIEVE_ASSERT(rows_.back().strategy.draft.speculates(), "shares are of chains");
  }
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return a.strategy.draft.depth < b.strategy.draft.depth;
  });
}

std::optional<Estimate95> ChainShares::of(const Strategy& strategy) const {
  const Row* below = nullptr;
  const Row* above = nullptr;
  for (const Row& row : rows_) {
    if (!differ_by_draft_alone(row.strategy, strategy)) {
      continue;
    }
    if (row.strategy.draft.depth <= strategy.draft.depth) {
      below = &row;
    } else if (above == nullptr) {
      above = &row;
    }
  }
  if (below == nullptr || above == nullptr) {
    const Row* nearest = below == nullptr ? above : below;
    return nearest == nullptr ? std::nullopt : std::optional(nearest->share);
  }
  const double first = std::log(static_cast<double>(below->strategy.draft.depth));
  const double last = std::log(static_cast<double>(above->strategy.draft.depth));
  const double at = std::log(static_cast<double>(strategy.draft.depth));
  return between(below->share, above->share, (at - first) / (last - first));
}

}  // namespace versieve
