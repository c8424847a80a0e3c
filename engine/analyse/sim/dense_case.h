// Attention over a dense cache as its launches see it: shapes, the drafted nodes, the tokens that
// are attended and where the buffers lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/analyse/sim/address_space.h"
#include "engine/analyse/sim/memory_trace.h"
#include "model/words/draft_tree.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Addresses; zero where the method has no such buffer.
struct DenseBuffers {
  std::uint64_t k = 0, v = 0;                     // [L, G, d]
  std::uint64_t k_tree = 0, v_tree = 0;           // [N, G, d]
  std::uint64_t q = 0, out = 0;                   // [N, H, d]
  std::uint64_t parent = 0, position = 0;         // [N] int32
  std::uint64_t tokens = 0;                       // [listed] int32
  std::uint64_t values = 0, states = 0;           // [N, H, chunks, d], [N, H, chunks, 2] float
  std::uint64_t kmin = 0, kmax = 0;               // [M, G, d]
  std::uint64_t scores = 0, indices = 0;          // ReSA's scratch and chosen blocks
  std::uint64_t weights = 0, mask = 0, mass = 0;  // SpecAttn's: [rows, L], [L], [rows]
  // An indexer's: [L, D], [I, D], [k] int32, [k], and what a sort takes beside its scores [L].
  std::uint64_t index_keys = 0, index_query = 0, hint = 0, chosen_values = 0, sorted = 0;
  std::uint64_t list_counts = 0;  // of its list, and of each CTA's part
  // Of kept weights: [H, keys] float, [H, keys / 64] float, [H, 2] float.
  std::uint64_t capture = 0, capture_tops = 0, capture_states = 0;
};

inline constexpr std::int64_t kCapturedTile = 64;  // keys whose weights have a maximum of their own

struct DenseCase {
  LlmShape shape;
  std::int64_t element_bytes = 2;
  std::int64_t context_len = 0;              // L
  std::vector<std::int32_t> parent;          // [N], a node's before it
  std::vector<std::int32_t> depth;           // [N], 0 for the root
  bool rewrites = false;                     // a chain whose rows are written anew: rectification
  bool tree = false;                         // else each node follows the one before it
  bool listed = false;                       // `tokens` are the committed tokens that are attended
  std::vector<std::int32_t> tokens;          // ascending
  std::int64_t key_block = 0;                // b of ReSA
  std::int64_t local_blocks = 1;             // newest ones, attended whatever their keys say
  std::int64_t indexed = 0;                  // tokens of the list that an indexer chose
  std::int64_t newest = 0;                   // and those behind them, which are the newest
  TopkAlgorithm topk = TopkAlgorithm::kGvr;  // of the indexer
  bool launch_by_launch = false;             // of its four parts
  std::vector<std::int32_t> blocks;          // [G, active], ascending in each KV head
  bool captures = false;       // the newest query's weights are kept (attention_weights)
  bool counted_later = false;  // the list's length is known to the device alone
  std::int64_t room = 0;       // tokens that the cache can hold; 0: the context
  DenseBuffers at;

  std::int64_t num_queries() const { return static_cast<std::int64_t>(parent.size()); }
  std::int64_t group_heads() const { return shape.num_heads / shape.num_kv_heads; }
  std::int64_t row_bytes() const { return shape.head_dim * element_bytes; }  // of a key
  std::int64_t token_bytes() const { return shape.kv_width() * element_bytes; }
  // Committed keys that every query sees.
  std::int64_t shared_keys() const {
    return listed ? static_cast<std::int64_t>(tokens.size()) : context_len;
  }
  // ReSA's blocks, the newest token's included, and those of them that are scored.
  std::int64_t all_blocks() const { return context_len / key_block + 1; }
  std::int64_t scored_blocks() const {
    return std::max<std::int64_t>(0, all_blocks() - local_blocks);
  }
  // Committed keys by which a launch is cut: those that there may be.
  std::int64_t bound_keys() const { return counted_later ? context_len : shared_keys(); }
  // Between two heads' kept weights, in whole tiles, and two rows of the choice's.
  std::int64_t captured_keys() const {
    return (capacity() + num_queries() + kCapturedTile - 1) / kCapturedTile * kCapturedTile;
  }
  std::int64_t capacity() const { return room == 0 ? context_len : room; }
  // Keys that a query sees, its path's included.
  std::int64_t keys_of(std::int64_t query) const {
    return shared_keys() + depth[static_cast<std::size_t>(query)] + 1;
  }
};

// `nodes` is in traversal order. Tokens, blocks and buffers are not set.
DenseCase dense_case(const LlmShape& shape, const DraftTree& nodes, std::int64_t context_len);

// Places a cache of its own (each time), or what all sets share.
void place_dense_cache(AddressSpace& space, DenseCase& attention);
void place_dense_shared(AddressSpace& space, DenseCase& attention);

// Rows of KV head g of `count` tokens from `first` on, of one cache.
void append_dense_rows(const DenseCase& a, std::uint64_t cache, std::int64_t g, std::int64_t first,
                       std::int64_t count, AccessKind kind, std::vector<Access>& out);

// `bytes` whole bytes by stores of 64.
void append_stored_pairs(std::uint64_t address, std::int64_t bytes, std::vector<Access>& out);

}  // namespace versieve::engine
