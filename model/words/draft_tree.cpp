#include "model/words/draft_tree.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/words/assert.h"

namespace versieve {
namespace {

void append_subtree(const std::vector<std::vector<std::int32_t>>& children, std::int32_t node,
                    std::vector<std::int32_t>& order) {
  order.push_back(node);
  for (const std::int32_t child : children[static_cast<std::size_t>(node)]) {
    append_subtree(children, child, order);
  }
}

}  // namespace

std::vector<std::int32_t> traversal_order(const DraftTree& tree, Traversal order) {
  std::vector<std::int32_t> out;
  if (order == Traversal::kBfs) {
    out.resize(tree.parent.size());
    std::iota(out.begin(), out.end(), 0);
    std::stable_sort(out.begin(), out.end(), [&](std::int32_t a, std::int32_t b) {
      return tree.depth[static_cast<std::size_t>(a)] < tree.depth[static_cast<std::size_t>(b)];
    });
    return out;
  }
  std::vector<std::vector<std::int32_t>> children(tree.parent.size());
  for (std::size_t i = 1; i < tree.parent.size(); ++i) {
    children[static_cast<std::size_t>(tree.parent[i])].push_back(static_cast<std::int32_t>(i));
  }
  append_subtree(children, 0, out);
  return out;
}

DraftTree reordered(const DraftTree& tree, const std::vector<std::int32_t>& order) {
  VERSIEVE_ASSERT(order.size() == tree.parent.size(), "one entry a node");
  std::vector<std::int32_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  }
  DraftTree out;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t from = static_cast<std::size_t>(order[i]);
    const std::int32_t parent = tree.parent[from];
    out.parent.push_back(parent < 0 ? -1 : place[static_cast<std::size_t>(parent)]);
    VERSIEVE_ASSERT(out.parent.back() < static_cast<std::int32_t>(i), "parents before children");
    out.depth.push_back(tree.depth[from]);
    out.token.push_back(tree.token[from]);
    out.log_probability.push_back(tree.log_probability[from]);
  }
  return out;
}

std::vector<std::int32_t> path_to(const DraftTree& tree, std::int32_t node) {
  std::vector<std::int32_t> path;
  for (; node >= 0; node = tree.parent[static_cast<std::size_t>(node)]) {
    path.push_back(node);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

DraftTree synthetic_tree(const DraftChoice& choice) {
  DraftTree tree{.parent = {-1}, .depth = {0}, .token = {0}, .log_probability = {0.0F}};
  std::vector<std::int64_t> child_count = {0};
  while (tree.size() < choice.nodes) {
    std::int64_t best = -1;
    float best_score = -INFINITY;
    for (std::int64_t i = 0; i < tree.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(i);
      const float score =
          tree.log_probability[at] - static_cast<float>(child_count[at] + 1) * std::log(2.0F);
      if (tree.depth[at] < choice.depth && child_count[at] < choice.width && score > best_score) {
        best = i;
        best_score = score;
      }
    }
    if (best < 0) {
      break;
    }
    child_count[static_cast<std::size_t>(best)] += 1;
    child_count.push_back(0);
    tree.parent.push_back(static_cast<std::int32_t>(best));
    tree.depth.push_back(tree.depth[static_cast<std::size_t>(best)] + 1);
    tree.token.push_back(0);
    tree.log_probability.push_back(best_score);
  }
  return tree;
}

}  // namespace versieve
