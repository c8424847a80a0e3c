// Dense or windowed attention of tree nodes (kernels/tree_attention), and how the
// kernel shares out the heads of a KV head: one definition for the launch and for the cost model.
// No sum's order depends on it.
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

struct Pass;       // model/launches/launch_parts.h
struct StepShape;  // model/launches/step_shape.h
struct StepWork;   // model/launches/launch_work.h

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

namespace traffic {

struct TreeAttentionShape {
  std::int64_t num_heads = 0, num_kv_heads = 0, head_dim = 0;
  std::int64_t context_len = 0, first_position = 0, window = 0;  // window 0: none
  std::int64_t num_queries = 0, num_nodes = 0;
  std::int64_t element_bytes = 2;
  TrafficTerm cache_term = TrafficTerm::kWindow;
};

Traffic tree_attention(const TreeAttentionShape& shape);
// Of a layer over a dense cache: what it reads of it.
Traffic dense_attention(const StepShape& shape);

}  // namespace traffic

// Of a draft. `joint`: of rows that it takes apart itself.
void add_draft_attention(const StepShape& shape, const Pass& pass, double nodes, bool joint,
                         StepWork& out);

}  // namespace versieve
