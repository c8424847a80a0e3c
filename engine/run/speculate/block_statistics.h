// How much the queries of one verification step share of their selected blocks, layer by layer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace versieve::engine {

struct BlockStatistics {
  // rho: |I(q) and I(q+1)| / blocks of a query, mean over adjacent queries and KV heads; none for
  // one query.
  std::optional<double> adjacent_overlap;
  double unique_blocks = 0.0;  // over all queries, mean over KV heads
};

// `indices` [N, G, n], ascending, then -1, in traversal order.
BlockStatistics block_statistics(const std::vector<std::int32_t>& indices, std::int64_t num_queries,
                                 std::int64_t num_kv_heads, std::int64_t sel_count);

// Distinct blocks of a group of rows [j C, (j + 1) C), a short last one included, mean over groups
// and KV heads: U(C, rho).
double group_blocks(const std::vector<std::int32_t>& indices, std::int64_t num_queries,
                    std::int64_t num_kv_heads, std::int64_t sel_count, std::int64_t group_size);

}  // namespace versieve::engine
