// index_scores (kernels/index_scores): what it moves and computes.
#pragma once

#include <cstdint>

#include "model/words/kernel_case.h"
#include "model/words/traffic.h"

namespace versieve {

namespace traffic {

// The keys, queries and weights in once, a score a query and position out.
Traffic index_scores(std::int64_t rows, std::int64_t length, const IndexHeads& index,
                     std::int64_t element_bytes);

}  // namespace traffic
}  // namespace versieve
