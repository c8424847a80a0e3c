// A draft tree flattened in a traversal order: what the verifier sees of one speculative step.
// Node 0 is the root, the newest token, which is not yet in the KV cache.
#pragma once

#include <cstdint>
#include <vector>

#include "model/words/strategy.h"

namespace versieve {

struct DraftTree {
  std::vector<std::int32_t> parent;    // [N], parent[0] = -1, parent[i] < i
  std::vector<std::int32_t> depth;     // [N], depth[0] = 0
  std::vector<std::int32_t> token;     // [N]
  std::vector<float> log_probability;  // [N], of the node's path under the draft; 0 for the root

  std::int64_t size() const { return static_cast<std::int64_t>(parent.size()); }
};

// The nodes in traversal order as indices into `tree`: BFS by level, DFS with each node's children
// in their own order; the root comes first and parents before children in both.
std::vector<std::int32_t> traversal_order(const DraftTree& tree, Traversal order);
// The tree with node i of the result being node order[i] of the input. REQUIRES: `order` is a
// permutation that keeps parents before children.
DraftTree reordered(const DraftTree& tree, const std::vector<std::int32_t>& order);
// Indices from the root to `node`, both included.
std::vector<std::int32_t> path_to(const DraftTree& tree, std::int32_t node);

// A tree of that choice without a draft model, for timing: the best-first tree whose j-th child has
// probability 2^-(j+1), lower index first on ties. Its shape is what a confident draft grows.
// Tokens are 0.
DraftTree synthetic_tree(const DraftChoice& choice);

}  // namespace versieve
