#include "model/launches/rope_append.h"

#include "model/launches/launch_parts.h"
#include "model/launches/row_ops.h"

namespace versieve {

namespace traffic {

Traffic rope(std::int64_t n, std::int64_t heads, std::int64_t head_dim,
             std::int64_t element_bytes) {
  const std::int64_t count = n * heads * head_dim;
  return moved(TrafficTerm::kActivations, count * element_bytes, count * element_bytes,
               3.0 * static_cast<double>(count));
}

Traffic rope_table(std::int64_t n, std::int64_t head_dim, std::int64_t element_bytes) {
  return moved(TrafficTerm::kActivations, n * kF32Bytes, n * head_dim * element_bytes,
               20.0 * static_cast<double>(n * head_dim));
}

Traffic rope_append(std::int64_t n, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::int64_t gates, bool keeps_raw_keys,
                    std::int64_t element_bytes) {
  const std::int64_t in = n * ((heads + 2 * kv_heads) * head_dim + gates);
  const std::int64_t raw = keeps_raw_keys ? n * kv_heads * head_dim : 0;
  return moved(TrafficTerm::kActivations, in * element_bytes, (in + raw) * element_bytes,
               3.0 * static_cast<double>(in));
}

Traffic turned_rows(std::int64_t n, std::int64_t heads, std::int64_t kv_heads,
                    std::int64_t head_dim, std::int64_t element_bytes) {
  const std::int64_t kept = n * 2 * kv_heads * head_dim * element_bytes;
  return moved(TrafficTerm::kActivations, kept, kept,
               3.0 * static_cast<double>(n * (heads + 2 * kv_heads) * head_dim));
}

}  // namespace traffic

void add_rope_append(const Pass& p, const JointRow& row, StepWork& out) {
  Traffic t = traffic::rope_append(p.whole_rows(), row.heads, row.kv_heads, row.head_dim, row.gates,
                                   row.keeps_raw_keys, p.element_bytes);
  if (row.keeps_cache_rows) {
    t += traffic::kept_rows(p.whole_rows(), 2 * row.kv_heads * row.head_dim, p.element_bytes);
  }
  t += row.pooled;
  // A thread takes one unit of a row, however wide (kernels/rope_append).
  out.add(streaming(LaunchKind::kRope, p.other, p.times, t, p.rows, 1.0));
}

}  // namespace versieve
