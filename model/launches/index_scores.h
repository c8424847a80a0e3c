// index_scores (kernels/index_scores): what it moves and computes.
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

// Of a token-level indexer: heads of a query, and the size of their keys, one a position.
struct IndexHeads {
  std::int64_t heads = 0;
  std::int64_t dim = 0;
};

namespace traffic {

// The keys, queries and weights in once, a score a query and position out.
Traffic index_scores(std::int64_t rows, std::int64_t length, const IndexHeads& index,
                     std::int64_t element_bytes);

}  // namespace traffic
}  // namespace versieve
