// Does a grown tree hold the best candidates, and does pruning leave it as it was?
#include <catch2/catch.hpp>

#include <cmath>
#include <map>
#include <random>

#include "engine/run/speculate/tree_growth.h"
#include "tests/engine/run/tiny_engine.h"

namespace versieve::engine {
namespace {

// Log-probabilities of a node's children: a function of its path alone, descending.
std::vector<float> children_scores(const DraftTree& tree, std::int32_t node, std::int64_t width,
                                   std::uint64_t seed) {
  std::uint64_t key = seed;
  for (const std::int32_t i : path_to(tree, node)) {
    key = key * 1000003 + static_cast<std::uint64_t>(tree.token[static_cast<std::size_t>(i)]);
  }
  std::mt19937_64 random(key);
  std::vector<float> scores;
  for (std::int64_t j = 0; j < width; ++j) {
    // Few distinct values, so that ties are common.
    scores.push_back(-0.25F * static_cast<float>(random() % 12));
  }
  std::sort(scores.rbegin(), scores.rend());
  return scores;
}

void expand(TreeGrowth& growth, const std::vector<std::int32_t>& nodes, std::int64_t width,
            std::uint64_t seed) {
  for (const std::int32_t node : nodes) {
    const std::vector<float> scores = children_scores(growth.candidates(), node, width, seed);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      growth.add_child(node, static_cast<std::int32_t>(j), scores[j]);
    }
  }
}

DraftTree grow(const DraftChoice& choice, std::uint64_t seed) {
  TreeGrowth growth(choice, 99);
  for (std::vector<std::int32_t> nodes = growth.frontier(); !nodes.empty();
       nodes = growth.frontier()) {
    expand(growth, nodes, choice.width, seed);
  }
  return growth.finish();
}

// The definition, without any pruning: the best `width` of each level expanded to the last level.
DraftTree grow_all(const DraftChoice& choice, std::uint64_t seed) {
  TreeGrowth growth(choice, 99);
  std::vector<std::int32_t> nodes = {0};
  for (std::int64_t level = 0; level < choice.depth; ++level) {
    const std::int32_t first = static_cast<std::int32_t>(growth.candidates().size());
    expand(growth, nodes, choice.width, seed);
    nodes.clear();
    for (std::int32_t i = first; i < growth.candidates().size(); ++i) {
      nodes.push_back(i);
    }
    const std::vector<float>& score = growth.candidates().log_probability;
    std::stable_sort(nodes.begin(), nodes.end(), [&](std::int32_t a, std::int32_t b) {
      return score[static_cast<std::size_t>(a)] > score[static_cast<std::size_t>(b)];
    });
    nodes.resize(std::min(nodes.size(), static_cast<std::size_t>(choice.width)));
  }
  return growth.finish();
}

// A node by its path of tokens: two trees of one law are equal if these are.
std::map<std::vector<std::int32_t>, float> by_path(const DraftTree& tree) {
  std::map<std::vector<std::int32_t>, float> out;
  for (std::int32_t node = 0; node < tree.size(); ++node) {
    std::vector<std::int32_t> tokens;
    for (const std::int32_t i : path_to(tree, node)) {
      tokens.push_back(tree.token[static_cast<std::size_t>(i)]);
    }
    out[tokens] = tree.log_probability[static_cast<std::size_t>(node)];
  }
  return out;
}

TEST_CASE("leaving out hopeless nodes grows the same tree as expanding every level") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    for (const DraftChoice choice :
         {DraftChoice{4, 3, 12}, DraftChoice{6, 2, 20}, DraftChoice{3, 5, 6}, DraftChoice{7, 1, 5},
          DraftChoice{5, 4, 50}}) {
      const DraftTree tree = grow(choice, seed);
      INFO("seed " << seed << ", depth " << choice.depth << ", width " << choice.width);
      CHECK(tree.size() == choice.nodes);
      CHECK(by_path(tree) == by_path(grow_all(choice, seed)));
      for (std::size_t i = 1; i < tree.parent.size(); ++i) {
        CHECK(tree.parent[i] < static_cast<std::int32_t>(i));
        CHECK(tree.depth[i] <= choice.depth);
      }
    }
  }
}

TEST_CASE("a chain of seven expands seven times and not an eighth") {
  TreeGrowth growth({7, 1, 8}, 0);
  int expansions = 0;
  for (std::vector<std::int32_t> nodes = growth.frontier(); !nodes.empty();
       nodes = growth.frontier()) {
    growth.add_child(nodes[0], expansions++, -0.1F);
  }
  CHECK(expansions == 7);
  CHECK(growth.finish().parent == std::vector<std::int32_t>{-1, 0, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("a log-probability rounded above zero does not lift a child over its parent") {
  TreeGrowth growth({2, 1, 2}, 0);
  growth.add_child(0, 1, -1.0F);
  growth.add_child(1, 2, 1e-6F);
  CHECK(growth.finish().token == std::vector<std::int32_t>{0, 1});
}

}  // namespace
}  // namespace versieve::engine
