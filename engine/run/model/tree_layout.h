// What a draft tree over a committed context means in rows: each node's position, which nodes
// complete a compression block, and from which tokens (committed or ancestors) that block is built.
// Pure host arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "model/words/draft_tree.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

struct TreeLayout {
  std::vector<std::int32_t> position;  // [N]: L + depth
  // Path-local compressed tokens, one a node that completes a block (kernels/nsa_verify/README.md).
  std::vector<std::int32_t> owner;   // [E]: the node, ascending
  std::vector<std::int32_t> block;   // [E]: index of the compressed token on its path
  std::vector<std::int32_t> source;  // [E, l]: cache row c >= 0, or -1 - node

  std::int64_t compressed_rows() const { return static_cast<std::int64_t>(owner.size()); }
  std::int32_t newest_position() const;
};

// `sparse` false: no compressed tokens.
TreeLayout tree_layout(const DraftTree& tree, std::int64_t context_len, const NsaGeometry& nsa,
                       bool sparse);

// A tree without branches: tokens[0] is the root.
DraftTree chain_tree(const std::vector<std::int32_t>& tokens);

}  // namespace versieve::engine
