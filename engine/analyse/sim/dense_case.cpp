#include "engine/analyse/sim/dense_case.h"

#include <algorithm>

#include "model/words/assert.h"
#include "model/words/index_shape.h"

namespace versieve::engine {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kChunkKeys = 128;   // the fewest of a chunk (kernels/flash_decode)
constexpr std::int64_t kMostChunks = 128;  // of a row

}  // namespace

DenseCase dense_case(const LlmShape& shape, const DraftTree& nodes, std::int64_t context_len) {
  VERSIEVE_ASSERT(nodes.size() > 0 && context_len > 0, "queries hang on a context");
  DenseCase a{.shape = shape, .context_len = context_len, .parent = nodes.parent};
  a.depth.assign(nodes.depth.begin(), nodes.depth.end());
  for (std::int64_t node = 0; node < nodes.size(); ++node) {
    a.tree = a.tree || a.parent[static_cast<std::size_t>(node)] != node - 1;
  }
  return a;
}

void place_dense_cache(AddressSpace& space, DenseCase& a) {
  a.at.k = space.place(a.capacity() * a.token_bytes());
  a.at.v = space.place(a.capacity() * a.token_bytes());
  if (a.key_block > 0) {
    const std::int64_t blocks = a.context_len / a.key_block + 1;
    a.at.kmin = space.place(blocks * a.token_bytes());
    a.at.kmax = space.place(blocks * a.token_bytes());
  }
  if (a.indexed > 0) {
    a.at.index_keys = space.place(a.capacity() * index_shape(a.shape).dim * a.element_bytes);
  }
}

void place_dense_shared(AddressSpace& space, DenseCase& a) {
  const std::int64_t queries = a.num_queries();
  const std::int64_t rows = queries * a.shape.num_heads;
  // Rows lie as far apart as the kernel leaves room for chunks of the fewest keys.
  const std::int64_t chunks =
      queries > 1 || a.room > 0 ? kMostChunks
                                : std::min(kMostChunks, (a.bound_keys() + kChunkKeys) / kChunkKeys);
  a.at.k_tree = space.place(queries * a.token_bytes());
  a.at.v_tree = space.place(queries * a.token_bytes());
  a.at.q = space.place(queries * a.shape.q_width() * a.element_bytes);
  a.at.out = space.place(queries * a.shape.q_width() * a.element_bytes);
  a.at.parent = space.place(queries * 4);
  a.at.position = space.place(queries * 4);
  a.at.tokens = space.place(static_cast<std::int64_t>(a.tokens.size()) * 4);
  a.at.values = space.place(rows * chunks * a.shape.head_dim * kFloat);
  a.at.states = space.place(rows * chunks * 2 * kFloat);
  if (a.captures) {
    a.at.capture = space.place(a.shape.num_heads * a.captured_keys() * kFloat);
    a.at.capture_tops = space.place(a.shape.num_heads * a.captured_keys() / kCapturedTile * kFloat);
    a.at.capture_states = space.place(a.shape.num_heads * 2 * kFloat);
  }
  if (a.key_block > 0) {
    const std::int64_t blocks = a.context_len / a.key_block + 1;
    a.at.scores = space.place(a.shape.num_kv_heads * blocks * kFloat);
    a.at.indices = space.place(a.shape.num_kv_heads * blocks * 4);
  }
  if (a.indexed > 0) {
    const IndexShape index = index_shape(a.shape);
    a.at.index_query = space.place(index.heads * index.dim * a.element_bytes);
    a.at.hint = space.place(a.indexed * 4);
    a.at.chosen_values = space.place(a.indexed * a.element_bytes);
    a.at.scores = space.place(a.context_len * a.element_bytes);
    a.at.sorted = space.place(2 * a.context_len * (a.element_bytes + 4));
  }
}

void append_dense_rows(const DenseCase& a, std::uint64_t cache, std::int64_t g, std::int64_t first,
                       std::int64_t count, AccessKind kind, std::vector<Access>& out) {
  if (count > 0) {
    out.push_back(
        {.address = cache + static_cast<std::uint64_t>(first * a.token_bytes() + g * a.row_bytes()),
         .bytes = static_cast<std::uint32_t>(a.row_bytes()),
         .count = static_cast<std::uint32_t>(count),
         .stride = static_cast<std::uint64_t>(a.token_bytes()),
         .kind = kind});
  }
}

void append_stored_pairs(std::uint64_t address, std::int64_t bytes, std::vector<Access>& out) {
  constexpr std::int64_t kPair = 64;
  out.push_back({.address = address,
                 .bytes = kPair,
                 .count = static_cast<std::uint32_t>(bytes / kPair),
                 .stride = kPair,
                 .kind = AccessKind::kWrite});
}

}  // namespace versieve::engine
