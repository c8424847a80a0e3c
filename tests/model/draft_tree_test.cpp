// Draft trees: traversal orders keep parents first; the synthetic tree has the asked size.
#include "model/words/draft_tree.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace versieve;

TEST_CASE("breadth first lists levels, depth first lists subtrees") {
  const DraftTree tree{.parent = {-1, 0, 0, 1, 1, 2},
                       .depth = {0, 1, 1, 2, 2, 2},
                       .token = {9, 1, 2, 3, 4, 5},
                       .log_probability = std::vector<float>(6)};
  CHECK(traversal_order(tree, Traversal::kBfs) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5});
  CHECK(traversal_order(tree, Traversal::kDfs) == std::vector<std::int32_t>{0, 1, 3, 4, 2, 5});
  const DraftTree dfs = reordered(tree, traversal_order(tree, Traversal::kDfs));
  CHECK(dfs.parent == std::vector<std::int32_t>{-1, 0, 1, 1, 0, 4});
  CHECK(dfs.token == std::vector<std::int32_t>{9, 1, 3, 4, 2, 5});
  CHECK(path_to(dfs, 5) == std::vector<std::int32_t>{0, 4, 5});
}

TEST_CASE("a synthetic tree keeps to depth, width and budget") {
  const DraftTree tree = synthetic_tree({.depth = 6, .width = 8, .nodes = 64});
  REQUIRE(tree.size() == 64);
  CHECK(*std::max_element(tree.depth.begin(), tree.depth.end()) == 6);
  for (std::int32_t i = 0; i < 64; ++i) {
    CHECK(std::count(tree.parent.begin(), tree.parent.end(), i) <= 8);
  }
  CHECK(synthetic_tree({.depth = 7, .width = 1, .nodes = 8}).size() == 8);
}
