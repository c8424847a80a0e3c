// What the queries of a step agree on: overlap and union of their selected blocks, read from the
// kernel's own indices.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace versieve::engine {

struct SelectionShape {
  std::int64_t num_queries = 0;   // N
  std::int64_t num_kv_heads = 0;  // G
  std::int64_t sel_count = 0;     // n
};

// Mean over adjacent queries and KV heads of |I(q) and I(q+1)| / n, rows that list fewer than n
// blocks counted by the longer of the two. None for one query.
std::optional<double> adjacent_overlap(const SelectionShape& shape,
                                       const std::vector<std::int32_t>& indices);  // [N, G, n]
// Mean over KV heads of the number of distinct blocks over all queries.
double unique_blocks(const SelectionShape& shape, const std::vector<std::int32_t>& indices);

}  // namespace versieve::engine
