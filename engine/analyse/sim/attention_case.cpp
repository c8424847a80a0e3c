#include "engine/analyse/sim/attention_case.h"

#include <algorithm>

#include "engine/analyse/sim/fused_cut.h"
#include "engine/analyse/sim/vanilla_cut.h"
#include "model/words/assert.h"

namespace versieve::engine {

std::int64_t AttentionCase::num_blocks() const {
  return *std::max_element(position.begin(), position.end()) / shape.nsa.sel_block + 1;
}

std::int64_t AttentionCase::max_compressed() const {
  return fused_call(*this).max_compressed();
}

std::int32_t AttentionCase::ancestor(std::int64_t node, std::int64_t k) const {
  std::int32_t up = static_cast<std::int32_t>(node);
  for (; k > 0 && up >= 0; --k) {
    up = parent[static_cast<std::size_t>(up)];
  }
  return up;
}

std::int64_t AttentionCase::path_row(std::int64_t node, std::int64_t index) const {
  const std::int64_t last = index * shape.nsa.cmp_stride + shape.nsa.cmp_block - 1;
  const std::int32_t owner = ancestor(node, position[static_cast<std::size_t>(node)] - last);
  const auto found = std::lower_bound(cmp_tree_owner.begin(), cmp_tree_owner.end(), owner);
  return found != cmp_tree_owner.end() && *found == owner ? found - cmp_tree_owner.begin() : -1;
}

AttentionCase attention_case(const LlmShape& shape, const DraftTree& tree,
                             std::int64_t context_len) {
  VERSIEVE_ASSERT(tree.size() > 0 && context_len > 0, "a tree hangs on a context");
  AttentionCase a;
  a.shape = shape;
  a.context_len = context_len;
  a.parent = tree.parent;
  for (std::int64_t node = 0; node < tree.size(); ++node) {
    const std::int64_t t = context_len + tree.depth[static_cast<std::size_t>(node)];
    a.position.push_back(static_cast<std::int32_t>(t));
    const std::int64_t past = t + 1 - shape.nsa.cmp_block;
    if (past >= 0 && past % shape.nsa.cmp_stride == 0) {
      a.cmp_tree_owner.push_back(static_cast<std::int32_t>(node));
    }
  }
  return a;
}

void place_cache(AddressSpace& space, AttentionCase& attention) {
  const std::int64_t tokens = attention.context_len * attention.token_bytes();
  const std::int64_t compressed = attention.committed_compressed() * attention.token_bytes();
  attention.at.k = space.place(tokens);
  attention.at.v = space.place(tokens);
  attention.at.k_cmp = space.place(compressed);
  attention.at.v_cmp = space.place(compressed);
}

void place_shared(AddressSpace& space, AttentionCase& attention) {
  AttentionBuffers& at = attention.at;
  const LlmShape& shape = attention.shape;
  const std::int64_t queries = attention.num_queries();
  const std::int64_t extra = static_cast<std::int64_t>(attention.cmp_tree_owner.size());
  at.k_tree = space.place(queries * attention.token_bytes());
  at.v_tree = space.place(queries * attention.token_bytes());
  at.k_cmp_tree = space.place(extra * attention.token_bytes());
  at.v_cmp_tree = space.place(extra * attention.token_bytes());
  at.q = space.place(queries * shape.q_width() * attention.element_bytes);
  at.gates = space.place(queries * shape.num_heads * 3 * attention.element_bytes);
  at.out = space.place(queries * shape.q_width() * attention.element_bytes);
  at.parent = space.place(queries * 4);
  at.position = space.place(queries * 4);
  at.owner = space.place(extra * 4);
  at.indices = space.place(queries * shape.num_kv_heads * shape.nsa.sel_count * 4);
  at.indices_in = space.place(queries * shape.num_kv_heads * shape.nsa.sel_count * 4);
  if (attention.form == NsaForm::kVanilla) {
    place_vanilla_scratch(space, attention);
  } else {
    place_fused_scratch(space, attention);
  }
}

}  // namespace versieve::engine
