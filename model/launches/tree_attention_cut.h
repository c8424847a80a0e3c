// How kernels/tree_attention shares out the heads of a KV head: one definition for the launch and
// for the cost model. No sum's order depends on it.
#pragma once

#include <cstdint>

namespace versieve {

inline constexpr std::int64_t kTreeTileHeads = 4;       // query heads that a warp holds at most
inline constexpr std::int64_t kTreeBlocksWanted = 132;  // one for each SM of an H200

struct TreeAttentionCut {
  std::int64_t heads;  // room of a warp: 1, 2 or kTreeTileHeads
  std::int64_t parts;  // thread blocks of a query and KV head
};

// Of `group_heads` query heads a KV head, for `pairs` queries and KV heads: blocks of one or two
// heads where that leaves an SM for each, else one that holds them all.
constexpr TreeAttentionCut tree_attention_cut(std::int64_t group_heads, std::int64_t pairs) {
  for (std::int64_t heads = 1; heads < kTreeTileHeads && group_heads <= kTreeTileHeads;
       heads *= 2) {
    const std::int64_t parts = (group_heads + heads - 1) / heads;
    if (parts == 1 || pairs * parts <= kTreeBlocksWanted) {
      return {heads, parts};
    }
  }
  return {kTreeTileHeads, 1};
}

}  // namespace versieve
