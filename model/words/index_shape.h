// The index keys and queries of a token-level indexer on a target that was trained with none
// (kernels/index_keys): of every KV head's key the rotary pairs that turn slowest, side by side in
// one row; of every query head the same pairs, in the place of its KV head.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/words/llm_shape.h"

namespace versieve {

inline constexpr std::int64_t kIndexPairs = 64;      // that an index key holds at most
inline constexpr std::int64_t kIndexHeadStride = 8;  // index heads come in eights

struct IndexShape {
  std::int64_t pairs = 0;  // of each KV head
  std::int64_t dim = 0;    // of an index key: 64 or 128, zeros behind the pairs
  std::int64_t heads = 0;  // of an index query: the query heads, then zeros to a multiple of 8
};

// REQUIRES: at most kIndexPairs KV heads.
inline IndexShape index_shape(std::int64_t num_heads, std::int64_t num_kv_heads,
                              std::int64_t head_dim) {
  const std::int64_t pairs = std::min(head_dim / 2, kIndexPairs / num_kv_heads);
  return {.pairs = pairs,
          .dim = 2 * pairs * num_kv_heads <= kIndexPairs ? kIndexPairs : 2 * kIndexPairs,
          .heads = (num_heads + kIndexHeadStride - 1) / kIndexHeadStride * kIndexHeadStride};
}
inline IndexShape index_shape(const LlmShape& target) {
  return index_shape(target.num_heads, target.num_kv_heads, target.head_dim);
}

}  // namespace versieve
