#include "model/launches/tree_attention.h"

#include <algorithm>
#include <cmath>

#include "model/launches/launch_parts.h"
#include "model/launches/rope_append.h"
#include "model/launches/step_shape.h"

namespace versieve {

namespace traffic {

Traffic tree_attention(const TreeAttentionShape& s) {
  const double token = static_cast<double>(2 * s.num_kv_heads * s.head_dim * s.element_bytes);
  const double rows = static_cast<double>(s.num_queries * s.num_heads * s.head_dim);
  std::int64_t keys = s.context_len - s.first_position;
  keys = s.window > 0 ? std::min(keys, s.window) : keys;
  Traffic t;
  t.read(s.cache_term, static_cast<double>(keys) * token);
  t.read(TrafficTerm::kTreeBuffer, static_cast<double>(s.num_nodes) * token);
  t.read(TrafficTerm::kQueryOutput, rows * static_cast<double>(s.element_bytes));
  t.write(TrafficTerm::kQueryOutput, rows * static_cast<double>(s.element_bytes));
  t.flops = 4.0 * rows * static_cast<double>(keys);
  return t;
}

Traffic dense_attention(const StepShape& s) {
  return tree_attention({.num_heads = s.target.num_heads,
                         .num_kv_heads = s.target.num_kv_heads,
                         .head_dim = s.target.head_dim,
                         .context_len = std::llround(dense_keys(s)),
                         .num_queries = s.num_queries,
                         .num_nodes = s.num_queries,
                         .element_bytes = s.element_bytes,
                         .cache_term = dense_term(s)});
}

}  // namespace traffic

void add_draft_attention(const StepShape& s, const Pass& pass, double nodes, bool joint,
                         StepWork& out) {
  const DraftShape& d = s.draft;
  const double requests = number(s.requests);
  Pass own = pass;  // one request's
  own.rows = pass.rows / requests;
  Traffic t = traffic::tree_attention({.num_heads = d.num_heads,
                                       .num_kv_heads = d.num_kv_heads,
                                       .head_dim = d.head_dim,
                                       .context_len = s.context_len,
                                       .first_position = 1,
                                       .window = d.window,
                                       .num_queries = own.whole_rows(),
                                       .num_nodes = std::llround(nodes),
                                       .element_bytes = s.element_bytes,
                                       .cache_term = TrafficTerm::kDraft});
  if (joint) {
    t += traffic::turned_rows(own.whole_rows(), d.num_heads, d.num_kv_heads, d.head_dim,
                              s.element_bytes);
  }
  const double keys = number(std::min(d.window, s.context_len));
  const double token = number(2 * d.num_kv_heads * d.head_dim * s.element_bytes);
  const std::int64_t group_heads = d.num_heads / d.num_kv_heads;
  const Pass& launched = s.ragged ? pass : own;
  const TreeAttentionCut cut =
      tree_attention_cut(group_heads, launched.whole_rows() * d.num_kv_heads);
  const double parts = number(cut.parts);
  // A block of fewer heads is through sooner: its warps are bound by the instructions of a key.
  const double share =
      number(std::min(cut.heads, group_heads)) / number(std::min(kTreeTileHeads, group_heads));
  const std::size_t first = out.count;
  out.add(reloading(LaunchKind::kTreeAttention, Phase::kDraft, pass.times, t, TrafficTerm::kDraft,
                    parts * own.rows * keys * token, parts * own.rows * number(d.num_kv_heads),
                    share * keys / kKeysPerStep));
  widen_from(first, requests, s.ragged, out);
}

}  // namespace versieve
