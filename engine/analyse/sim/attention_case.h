// One NSA layer's attention as its launches see it: shapes, tree, the blocks that are attended, and
// where the buffers lie. The same whether a CPU or a GPU run chose the blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/analyse/sim/address_space.h"
#include "model/words/draft_tree.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Addresses; zero where the form has no such buffer.
struct AttentionBuffers {
  std::uint64_t k = 0, v = 0;                         // [L, G, d]
  std::uint64_t k_cmp = 0, v_cmp = 0;                 // [Lc, G, d]
  std::uint64_t k_tree = 0, v_tree = 0;               // [N, G, d]
  std::uint64_t k_cmp_tree = 0, v_cmp_tree = 0;       // [E, G, d]
  std::uint64_t q = 0, gates = 0, out = 0;            // [N, H, d], [N, H, 3], [N, H, d]
  std::uint64_t parent = 0, position = 0, owner = 0;  // [N], [N], [E], int32
  std::uint64_t indices = 0, indices_in = 0;          // [N, G, n] int32
  // Scratch of the vanilla launches, float: [N, G, Lc', Hp], [N, G, spans, Hp, 2], [.., d], [N, H,
  // d] twice.
  std::uint64_t scores = 0, states = 0, partials = 0, selected = 0, window = 0;
  // Scratch of the fused launches, float: [N, H, spans, 2], [.., d], [N, H, slices, 4 or 16], [N,
  // H, slices, 2], [N, H, d], [N, H, 8, 2], [N, H, 8, d].
  std::uint64_t span_states = 0, span_outs = 0, weights = 0, slices = 0, compressed = 0,
                segment_states = 0, segment_outs = 0, spills = 0;
};

struct AttentionCase {
  LlmShape shape;
  NsaForm form = NsaForm::kFused;
  std::int64_t group_size = 1;  // C
  GroupMode group_mode = GroupMode::kExact;
  bool reuse = false;
  std::int64_t element_bytes = 2;
  std::int64_t context_len = 0;              // L
  std::vector<std::int32_t> parent;          // [N]
  std::vector<std::int32_t> position;        // [N]
  std::vector<std::int32_t> cmp_tree_owner;  // [E]
  std::vector<std::int32_t> indices;         // [N, G, n] ascending, then -1: what is attended
  AttentionBuffers at;

  std::int64_t num_queries() const { return static_cast<std::int64_t>(parent.size()); }
  std::int64_t group_heads() const { return shape.num_heads / shape.num_kv_heads; }
  std::int64_t row_bytes() const { return shape.head_dim * element_bytes; }  // of a key
  std::int64_t token_bytes() const { return shape.kv_width() * element_bytes; }
  std::int64_t committed_compressed() const { return compressed_count(shape.nsa, context_len); }
  // Compressed tokens that node `node` sees, path-local ones included.
  std::int64_t seen_compressed(std::int64_t node) const {
    return compressed_count(shape.nsa, position[static_cast<std::size_t>(node)] + 1);
  }
  std::int64_t num_blocks() const;      // S = greatest position / B + 1
  std::int64_t max_compressed() const;  // that any node can see, as scratch is sized for
  // The k-th ancestor of `node`, itself for 0; -1 past the root.
  std::int32_t ancestor(std::int64_t node, std::int64_t k) const;
  // Row of k_cmp_tree for compressed token `index` >= Lc of the node's path, or -1.
  std::int64_t path_row(std::int64_t node, std::int64_t index) const;
};

// `tree` is in traversal order. `indices` may be empty and follow later. Buffers are not placed.
AttentionCase attention_case(const LlmShape& shape, const DraftTree& tree,
                             std::int64_t context_len);

// Places the caches (a set of their own each time) or what all sets share.
void place_cache(AddressSpace& space, AttentionCase& attention);
void place_shared(AddressSpace& space, AttentionCase& attention);

}  // namespace versieve::engine
