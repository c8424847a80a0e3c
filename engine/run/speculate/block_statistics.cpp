#include "engine/run/speculate/block_statistics.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "model/words/assert.h"

namespace versieve::engine {
namespace {

double overlap(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  std::vector<std::int32_t> shared;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(shared));
  return static_cast<double>(shared.size()) / static_cast<double>(std::max(a.size(), b.size()));
}

}  // namespace

BlockStatistics block_statistics(const std::vector<std::int32_t>& indices, std::int64_t num_queries,
                                 std::int64_t num_kv_heads, std::int64_t sel_count) {
  VERSIEVE_ASSERT(
      static_cast<std::int64_t>(indices.size()) == num_queries * num_kv_heads * sel_count,
      "one row of blocks a query and KV head");
  const auto blocks_of = [&](std::int64_t query, std::int64_t g) {
    const std::ptrdiff_t first = (query * num_kv_heads + g) * sel_count;
    std::vector<std::int32_t> blocks(indices.begin() + first, indices.begin() + first + sel_count);
    blocks.erase(std::remove(blocks.begin(), blocks.end(), -1), blocks.end());
    return blocks;
  };
  BlockStatistics result;
  double shared = 0.0;
  for (std::int64_t g = 0; g < num_kv_heads; ++g) {
    std::set<std::int32_t> unique;
    for (std::int64_t query = 0; query < num_queries; ++query) {
      const std::vector<std::int32_t> blocks = blocks_of(query, g);
      unique.insert(blocks.begin(), blocks.end());
      shared += query == 0 ? 0.0 : overlap(blocks_of(query - 1, g), blocks);
    }
    result.unique_blocks += static_cast<double>(unique.size()) / static_cast<double>(num_kv_heads);
  }
  if (num_queries > 1) {
    result.adjacent_overlap = shared / static_cast<double>((num_queries - 1) * num_kv_heads);
  }
  return result;
}

double group_blocks(const std::vector<std::int32_t>& indices, std::int64_t num_queries,
                    std::int64_t num_kv_heads, std::int64_t sel_count, std::int64_t group_size) {
  VERSIEVE_ASSERT(group_size >= 1 && num_queries >= 1, "a group has queries");
  double distinct = 0.0;
  std::int64_t groups = 0;
  for (std::int64_t first = 0; first < num_queries; first += group_size) {
    const std::int64_t end = std::min(num_queries, first + group_size);
    for (std::int64_t g = 0; g < num_kv_heads; ++g) {
      std::set<std::int32_t> blocks;
      for (std::int64_t query = first; query < end; ++query) {
        const std::ptrdiff_t row = (query * num_kv_heads + g) * sel_count;
        blocks.insert(indices.begin() + row, indices.begin() + row + sel_count);
      }
      blocks.erase(-1);
      distinct += static_cast<double>(blocks.size());
    }
    ++groups;
  }
  return distinct / static_cast<double>(groups * num_kv_heads);
}

}  // namespace versieve::engine
