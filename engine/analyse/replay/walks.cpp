#include "engine/analyse/replay/walks.h"

#include <algorithm>
#include <numeric>

#include "model/cost/acceptance.h"

namespace versieve::engine {
namespace {

const std::vector<std::int64_t> kNotRecorded;

// Every step moves on; a database that others wrote may say otherwise.
bool moves_on(const AcceptanceWalk& walk) {
  return std::all_of(walk.yields.begin(), walk.yields.end(),
                     [](std::int64_t yield) { return yield >= 1; });
}

std::int64_t tokens_of(const std::vector<std::int64_t>& yields) {
  return std::accumulate(yields.begin(), yields.end(), std::int64_t{0});
}

}  // namespace

bool can_be_recorded(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kNsa && !strategy.adapts_length &&
         strategy.sampling.value_or(SamplingAlgorithm::kGreedy) == SamplingAlgorithm::kGreedy;
}

std::string walk_key(const Strategy& strategy) {
  if (!strategy.draft.speculates()) {
    return "ar";
  }
  if (!can_be_recorded(strategy)) {
    return strategy.text();
  }
  Strategy key;
  key.draft = strategy.draft;
  key.schedule = strategy.schedule;
  if (approximate_group(strategy) > 1) {
    key.order = strategy.order;
    key.group_size = strategy.group_size;
    key.group_mode = strategy.group_mode;
  }
  return key.text();
}

Walks::Walks(const std::vector<PointMeasurement>& points, const PairId& pair,
             const std::string& split, const std::string& regime) {
  for (const PointMeasurement& m : points) {
    const bool of_pair = pair.sha256.empty() ? m.key.model == pair.name : m.key.pair == pair.sha256;
    if (m.status != PointStatus::kOk || !m.acceptance || !of_pair || m.key.split != split ||
        (!regime.empty() && m.key.regime != regime)) {
      continue;
    }
    const std::string key = walk_key(Strategy::parse(m.key.strategy));
    for (const AcceptanceWalk& walk : m.acceptance->walks) {
      if (moves_on(walk)) {
        walks_[{m.key.regime, m.key.context_len, walk.text}][key] = walk.yields;
      }
    }
  }
  for (auto& [request, by_strategy] : walks_) {
    std::int64_t longest = 0;
    for (const auto& [key, yields] : by_strategy) {
      longest = std::max(longest, tokens_of(yields));
    }
    by_strategy["ar"] = std::vector<std::int64_t>(static_cast<std::size_t>(longest), 1);
  }
}

std::vector<ReplayRequest> Walks::requests(std::int64_t low, std::int64_t high) const {
  std::vector<ReplayRequest> out;
  for (const auto& [request, by_strategy] : walks_) {
    if (request.context_len > low && request.context_len <= high) {
      out.push_back(request);
    }
  }
  return out;
}

const std::vector<std::int64_t>& Walks::of(const ReplayRequest& request,
                                           const Strategy& strategy) const {
  const auto by_strategy = walks_.find(request);
  if (by_strategy == walks_.end()) {
    return kNotRecorded;
  }
  const auto yields = by_strategy->second.find(walk_key(strategy));
  return yields == by_strategy->second.end() ? kNotRecorded : yields->second;
}

}  // namespace versieve::engine
