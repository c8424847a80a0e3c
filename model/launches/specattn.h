// What SpecAttn chooses tokens by: a draft's attention weights (kernels/attention_weights), the
// share p of them (kernels/top_p), lists (kernels/token_list), and which draft layer speaks for
// which of the target's (kernels/layer_map).
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h
struct StepWork;   // model/launches/launch_work.h

namespace traffic {

// Keys of one query in, a weight a key out.
Traffic attention_weights(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                          std::int64_t context_len, std::int64_t element_bytes);
// A table of similarities in, a map and its score out; all in double.
Traffic layer_map(std::int64_t draft_layers, std::int64_t verifier_layers);
// Rows of f32 weights in, once for the thresholds and once for the union; a mask out.
Traffic top_p(std::int64_t rows, std::int64_t length);
// At most: every token listed.
Traffic token_list(std::int64_t lists, std::int64_t length);

}  // namespace traffic

void add_attention_weights(const StepShape& shape, StepWork& out);
void add_top_p(const StepShape& shape, double layers, StepWork& out);

}  // namespace versieve
