// Rotary embedding (kernels/rope) and what takes a joint projection's rows apart, turns them and
// appends them to the cache (kernels/rope_append).
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

struct Pass;      // model/launches/launch_parts.h
struct StepWork;  // model/launches/launch_work.h

namespace traffic {

Traffic rope(std::int64_t n, std::int64_t heads, std::int64_t head_dim, std::int64_t element_bytes);
// Positions in, a cosine and a sine of each pair out.
Traffic rope_table(std::int64_t n, std::int64_t head_dim, std::int64_t element_bytes);
// The joint projection's rows in, their parts out, keys twice if `keeps_raw_keys`.
Traffic rope_append(std::int64_t n, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::int64_t gates, bool keeps_raw_keys,
                    std::int64_t element_bytes);
// Rows of a joint projection that attention takes apart itself: keys and values in and into the
// tree; queries are counted where they are read.
Traffic turned_rows(std::int64_t n, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::int64_t element_bytes);

}  // namespace traffic

// A row of queries, keys, values and gates.
struct JointRow {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, gates = 0;
  bool keeps_raw_keys = false;
  bool keeps_cache_rows = false;  // keys and values go to two places
  Traffic pooled = {};            // compressed tokens

  std::int64_t width() const { return (heads + 2 * kv_heads) * head_dim + gates; }
};
void add_rope_append(const Pass& pass, const JointRow& row, StepWork& out);

}  // namespace versieve
