// A planner table of several requests at a time, of trees that a tiny pair plays in milliseconds.
#pragma once

#include "tests/support/tiny_table.h"

namespace versieve::test {

// The buckets of tiny_table. One request: a tree is best; two to four: a chain, and in contexts of
// 64 tokens and more plain decoding; five to eight: plain decoding.
inline PlanTable tiny_batch_table() {
  constexpr const char* kTree = "nsa/d3k2n6/dfs/c2e/F*";
  constexpr const char* kChain = "nsa/d4k1n5/bfs/c1/F*";
  const auto table_of = [&](std::int64_t concurrency) {
    PlanTable table = tiny_table();
    table.concurrency = concurrency;
    table.entries.clear();
    for (std::int64_t bucket = 0; bucket < 3; ++bucket) {
      const double tree = concurrency == 1 ? 60.0 : 500.0;
      const double chain = concurrency == 1 || (concurrency == 4 && bucket == 0) ? 90.0 : 400.0;
      std::int64_t rank = 0;
      for (const Evaluation& e : {told(kTree, tree), told(kChain, chain)}) {
        table.entries.push_back({.bucket = bucket,
                                 .precision = PrecisionClass::kStrict,
                                 .rank = ++rank,
                                 .evaluation = e});
      }
    }
    return table;
  };
  PlanTable table = table_of(1);
  table.batched = {table_of(4), table_of(8)};
  return table;
}

}  // namespace versieve::test
