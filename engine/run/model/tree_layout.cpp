#include "engine/run/model/tree_layout.h"

#include <algorithm>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// The l tokens that end with `node`, oldest first.
void append_sources(const DraftTree& tree, std::int64_t context_len, std::int64_t cmp_block,
                    std::int32_t node, std::vector<std::int32_t>& source) {
  const std::size_t first = source.size();
  source.resize(first + static_cast<std::size_t>(cmp_block));
  std::int64_t committed = context_len - 1;  // newest committed token not yet taken
  for (std::int64_t j = cmp_block - 1; j >= 0; --j) {
    const std::size_t at = first + static_cast<std::size_t>(j);
    if (node >= 0) {
      source[at] = -1 - node;
      node = tree.parent[static_cast<std::size_t>(node)];
    } else {
      VERSIEVE_ASSERT(committed >= 0, "a compression block begins at a token");
      source[at] = static_cast<std::int32_t>(committed--);
    }
  }
}

}  // namespace

std::int32_t TreeLayout::newest_position() const {
  return *std::max_element(position.begin(), position.end());
}

TreeLayout tree_layout(const DraftTree& tree, std::int64_t context_len, const NsaGeometry& nsa,
                       bool sparse) {
  TreeLayout layout;
  for (std::int64_t i = 0; i < tree.size(); ++i) {
    const std::int64_t position = context_len + tree.depth[static_cast<std::size_t>(i)];
    layout.position.push_back(static_cast<std::int32_t>(position));
    const std::int64_t start = position + 1 - nsa.cmp_block;
    if (sparse && start >= 0 && start % nsa.cmp_stride == 0) {
      layout.owner.push_back(static_cast<std::int32_t>(i));
      layout.block.push_back(static_cast<std::int32_t>(start / nsa.cmp_stride));
      append_sources(tree, context_len, nsa.cmp_block, layout.owner.back(), layout.source);
    }
  }
  return layout;
}

DraftTree chain_tree(const std::vector<std::int32_t>& tokens) {
  DraftTree tree;
  tree.token = tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tree.parent.push_back(static_cast<std::int32_t>(i) - 1);
    tree.depth.push_back(static_cast<std::int32_t>(i));
    tree.log_probability.push_back(0.0F);
  }
  return tree;
}

}  // namespace versieve::engine
