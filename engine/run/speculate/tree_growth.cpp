#include "engine/run/speculate/tree_growth.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "model/words/assert.h"

namespace versieve::engine {

TreeGrowth::TreeGrowth(const DraftChoice& choice, std::int32_t root_token)
    : choice_(choice),
      candidates_{.parent = {-1}, .depth = {0}, .token = {root_token}, .log_probability = {0.0F}} {}

void TreeGrowth::add_child(std::int32_t parent, std::int32_t token, float log_probability) {
  const std::size_t at = static_cast<std::size_t>(parent);
  const std::int32_t depth = candidates_.depth[at] + 1;
  VERSIEVE_ASSERT(depth >= candidates_.depth.back(), "candidates come level after level");
  candidates_.parent.push_back(parent);
  candidates_.depth.push_back(depth);
  candidates_.token.push_back(token);
  // A log-probability rounded above zero must not lift a child over its parent.
  candidates_.log_probability.push_back(candidates_.log_probability[at] +
                                        std::min(log_probability, 0.0F));
}

bool TreeGrowth::ranks_before(std::int32_t a, std::int32_t b) const {
  const float score_a = candidates_.log_probability[static_cast<std::size_t>(a)];
  const float score_b = candidates_.log_probability[static_cast<std::size_t>(b)];
  return score_a > score_b || (score_a == score_b && a < b);  // numbers ascend with the level
}

float TreeGrowth::threshold() const {
  const std::size_t kept = static_cast<std::size_t>(choice_.nodes - 1);
  std::vector<float> scores(candidates_.log_probability.begin() + 1,
                            candidates_.log_probability.end());
  if (scores.size() < kept) {
    return -std::numeric_limits<float>::infinity();
  }
  std::nth_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(kept - 1),
                   scores.end(), std::greater<float>());
  return scores[kept - 1];
}

std::vector<std::int32_t> TreeGrowth::frontier() const {
  const std::int32_t level = candidates_.depth.back();
  if (level == 0) {
    return {0};
  }
  if (level >= choice_.levels()) {
    return {};
  }
  const float bar = threshold();
  std::vector<std::int32_t> nodes;
  for (std::size_t i = candidates_.depth.size(); i-- > 0 && candidates_.depth[i] == level;) {
    if (candidates_.log_probability[i] > bar) {
      nodes.push_back(static_cast<std::int32_t>(i));
    }
  }
  std::sort(nodes.begin(), nodes.end(),
            [&](std::int32_t a, std::int32_t b) { return ranks_before(a, b); });
  nodes.resize(std::min(nodes.size(), static_cast<std::size_t>(choice_.width)));
  return nodes;
}

DraftTree TreeGrowth::finish() const {
  std::vector<std::int32_t> kept(static_cast<std::size_t>(candidates_.size() - 1));
  std::iota(kept.begin(), kept.end(), 1);
  std::sort(kept.begin(), kept.end(),
            [&](std::int32_t a, std::int32_t b) { return ranks_before(a, b); });
  kept.resize(std::min(kept.size(), static_cast<std::size_t>(choice_.nodes - 1)));
  std::sort(kept.begin(), kept.end());
  std::vector<std::int32_t> place(static_cast<std::size_t>(candidates_.size()), -1);
  place[0] = 0;
  DraftTree tree{
      .parent = {-1}, .depth = {0}, .token = {candidates_.token[0]}, .log_probability = {0.0F}};
  for (const std::int32_t candidate : kept) {
    const std::size_t at = static_cast<std::size_t>(candidate);
    const std::int32_t parent = place[static_cast<std::size_t>(candidates_.parent[at])];
    VERSIEVE_ASSERT(parent >= 0, "a kept node's parent is kept");
    place[at] = static_cast<std::int32_t>(tree.size());
    tree.parent.push_back(parent);
    tree.depth.push_back(candidates_.depth[at]);
    tree.token.push_back(candidates_.token[at]);
    tree.log_probability.push_back(candidates_.log_probability[at]);
  }
  return tree;
}

DraftTree ranked_tree(const DraftChoice& choice, std::int64_t vocab, std::int32_t root_token) {
  TreeGrowth growth(choice, root_token);
  if (!choice.speculates()) {
    return growth.candidates();
  }
  const std::int32_t children = static_cast<std::int32_t>(std::min(choice.width, vocab));
  for (std::vector<std::int32_t> nodes = growth.frontier(); !nodes.empty();
       nodes = growth.frontier()) {
    for (const std::int32_t node : nodes) {
      for (std::int32_t rank = 0; rank < children; ++rank) {
        growth.add_child(node, rank, -static_cast<float>(rank + 1) * std::log(2.0F));
      }
    }
  }
  return growth.finish();
}

}  // namespace versieve::engine
