// tree_attention: dense or windowed attention of tree nodes, a CTA a query, KV head and part of its
// heads (kernels/tree_attention; its cut: model/launches/tree_attention.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/analyse/sim/memory_trace.h"

namespace versieve::engine {

struct TreeAttentionLaunch {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t element_bytes = 2;
  std::int64_t context_len = 0;     // committed rows
  std::int64_t first_position = 0;  // of them, the first that there is
  std::int64_t window = 0;          // 0: none
  // The tree's slots: parents (before their children, -1: none) and positions behind the committed
  // rows; the slots that ask.
  std::vector<std::int32_t> parent, depth, query;
  std::uint64_t k = 0, v = 0;            // [context_len, G, d]
  std::uint64_t k_tree = 0, v_tree = 0;  // [slots, G, d]
  std::uint64_t q = 0, out = 0;          // [queries, H, d]
  std::uint64_t lists = 0;               // [2, slots] int32: parents, positions
  // Rows that the launch takes apart itself, and their angles; 0: none.
  std::uint64_t joint = 0;  // [queries, H + 2 G, d]
  std::uint64_t table = 0;  // [queries, d] float
};

std::unique_ptr<LaunchTrace> trace_tree_attention(const TreeAttentionLaunch& launch);

}  // namespace versieve::engine
