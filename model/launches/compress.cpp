#include "model/launches/compress.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/step_shape.h"

namespace versieve {

namespace traffic {

Traffic compress(const CompressShape& s) {
  const double token = static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
  const std::int64_t tokens = s.rows > 0 ? (s.rows - 1) * s.cmp_stride + s.cmp_block : 0;
  Traffic t;
  t.read(TrafficTerm::kKvAppend, static_cast<double>(tokens) * token);
  t.write(TrafficTerm::kKvAppend, static_cast<double>(s.rows) * token);
  t.flops = 5.0 * static_cast<double>(s.rows * s.cmp_block * s.num_kv_heads * s.head_dim);
  return t;
}

}  // namespace traffic

Traffic pooled_tokens(const StepShape& s) {
  const auto of_rows = [&](std::int64_t rows) {
    return traffic::compress({.rows = rows,
                              .num_kv_heads = s.target.num_kv_heads,
                              .head_dim = s.target.head_dim,
                              .cmp_block = s.target.nsa.cmp_block,
                              .cmp_stride = s.target.nsa.cmp_stride,
                              .element_bytes = s.element_bytes});
  };
  const double requests = number(s.requests);
  if (s.recorded) {
    return scaled(of_rows(s.num_queries), requests);
  }
  const double levels = s.tree.speculates() ? number(s.tree.depth) + 1.0 : 1.0;
  const double share = std::min(1.0, levels / number(s.target.nsa.cmp_stride));
  return scaled(of_rows(std::max<std::int64_t>(1, std::llround(number(s.num_queries) / levels))),
                requests * share);
}

}  // namespace versieve
