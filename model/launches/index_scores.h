// A token-level indexer's launches: scores of all positions (kernels/index_scores), and on a target
// that was trained with no index keys how those and the index query are made (kernels/index_keys).
#pragma once

#include <cstdint>

#include "model/words/index_shape.h"
#include "model/words/kernel_case.h"
#include "model/words/traffic.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h
struct StepWork;   // model/launches/launch_work.h

namespace traffic {

// The keys, queries and weights in once, a score a query and position out.
Traffic index_scores(std::int64_t rows, std::int64_t length, const IndexHeads& index,
                     std::int64_t element_bytes);

// Index keys of `tokens` tokens in so many layers.
Traffic index_keys(std::int64_t layers, std::int64_t tokens, std::int64_t num_kv_heads,
                   const IndexShape& index, std::int64_t element_bytes);
// Of one layer: the pairs of every query head in, the padded index query out; the last choice of
// `chosen` tokens kept as hints, `newest` tokens listed.
Traffic index_query(std::int64_t num_heads, const IndexShape& index, std::int64_t chosen,
                    std::int64_t newest, std::int64_t element_bytes);

}  // namespace traffic

// Scores of `length` positions for each of `rows` queries, by keys that nobody read before.
void add_index_scores(std::int64_t rows, std::int64_t length, const IndexHeads& index,
                      std::int64_t element_bytes, double launches, StepWork& out);
// All that chooses tokens in `layers` layers of a step: index keys of its tokens, then in each
// layer the query, the scores and the top-k.
void add_indexer(const StepShape& shape, double layers, StepWork& out);
}  // namespace versieve
