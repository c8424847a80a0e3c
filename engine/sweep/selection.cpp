#include "engine/sweep/selection.h"

#include <algorithm>
#include <set>

#include "model/assert.h"

namespace versieve::engine {
namespace {

// The blocks of one query and KV head: ascending, -1 padding left out.
std::vector<std::int32_t> row_of(const SelectionShape& shape,
                                 const std::vector<std::int32_t>& indices, std::int64_t query,
                                 std::int64_t kv_head) {
  const auto begin = indices.begin() + (query * shape.num_kv_heads + kv_head) * shape.sel_count;
  return {begin, std::find(begin, begin + shape.sel_count, -1)};
}

double overlap_of(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  std::vector<std::int32_t> common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return static_cast<double>(common.size()) / static_cast<double>(std::max(a.size(), b.size()));
}

void require_shape(const SelectionShape& shape, const std::vector<std::int32_t>& indices) {
  VERSIEVE_ASSERT(static_cast<std::int64_t>(indices.size()) ==
                      shape.num_queries * shape.num_kv_heads * shape.sel_count,
                  "indices are [N, G, n]");
}

}  // namespace

std::optional<double> adjacent_overlap(const SelectionShape& shape,
                                       const std::vector<std::int32_t>& indices) {
  require_shape(shape, indices);
  if (shape.num_queries < 2) {
    return std::nullopt;
  }
  double total = 0.0;
  for (std::int64_t query = 0; query + 1 < shape.num_queries; ++query) {
    for (std::int64_t head = 0; head < shape.num_kv_heads; ++head) {
      total +=
          overlap_of(row_of(shape, indices, query, head), row_of(shape, indices, query + 1, head));
    }
  }
  return total / static_cast<double>((shape.num_queries - 1) * shape.num_kv_heads);
}

double unique_blocks(const SelectionShape& shape, const std::vector<std::int32_t>& indices) {
  require_shape(shape, indices);
  double total = 0.0;
  for (std::int64_t head = 0; head < shape.num_kv_heads; ++head) {
    std::set<std::int32_t> blocks;
    for (std::int64_t query = 0; query < shape.num_queries; ++query) {
      const std::vector<std::int32_t> row = row_of(shape, indices, query, head);
      blocks.insert(row.begin(), row.end());
    }
    total += static_cast<double>(blocks.size());
  }
  return total / static_cast<double>(shape.num_kv_heads);
}

}  // namespace versieve::engine
