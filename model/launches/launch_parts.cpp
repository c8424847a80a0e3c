#include "model/launches/launch_parts.h"

#include <algorithm>

#include "model/launches/op_traffic.h"

namespace versieve {

void add_copy(const Pass& p, double times, std::int64_t width, TrafficTerm term, StepWork& out) {
  out.add(streaming(LaunchKind::kCopyRows, p.other, times * p.times,
                    traffic::copy_rows(p.whole_rows(), width, p.element_bytes, term), p.rows,
                    number(width) / kRowElementsPerStep));
}

// All logits are under way at once; a list then meets four times: floor, candidates, pushes, merge.
void add_logits(const Pass& p, std::int64_t vocab, std::int64_t k, Phase phase, StepWork& out) {
  constexpr double kMeetings = 4.0;
  const double steps = std::min(number(vocab) / kRowElementsPerStep, 1.0);
  out.add(streaming(LaunchKind::kTopLogits, phase, p.times,
                    traffic::top_logits(p.whole_rows(), vocab, k, p.element_bytes), p.rows,
                    k > 1 ? steps + kMeetings : steps));
}

Traffic scaled(Traffic t, double share) {
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    t.read_bytes[i] *= share;
    t.write_bytes[i] *= share;
  }
  t.flops *= share;
  return t;
}

Traffic pooled_tokens(const StepShape& s) {
  const auto of_rows = [&](std::int64_t rows) {
    return traffic::compress({.rows = rows,
                              .num_kv_heads = s.target.num_kv_heads,
                              .head_dim = s.target.head_dim,
                              .cmp_block = s.target.nsa.cmp_block,
                              .cmp_stride = s.target.nsa.cmp_stride,
                              .element_bytes = s.element_bytes});
  };
  if (s.recorded) {
    return of_rows(s.num_queries);
  }
  const double levels = s.tree.speculates() ? number(s.tree.depth) + 1.0 : 1.0;
  const double share = std::min(1.0, levels / number(s.target.nsa.cmp_stride));
  return scaled(of_rows(std::max<std::int64_t>(1, std::llround(number(s.num_queries) / levels))),
                share);
}

void add_attention_layers(const StepShape& s, double growth, StepWork& out) {
  const traffic::NsaVerifyShape attention = attention_shape(s, growth);
  add_attention(attention, s.form, false, number(s.refresh_layers), out);
  add_attention(attention, s.form, true, number(s.reuse_layers), out);
}

double committed_tokens(const StepShape& s) {
  return s.tree.speculates() ? 1.0 + 0.5 * number(s.tree.depth) : 1.0;
}

}  // namespace versieve
