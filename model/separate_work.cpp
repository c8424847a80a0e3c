// Steps of separate launches: q, k, v and gates projected one by one, rotary on queries and keys,
// sigmoid and SwiGLU elementwise, led by the host. The engine ran so until its projections were
// joined; measured steps of that time are priced by this composition.
#include <cmath>

#include "model/launch_parts.h"
#include "model/op_traffic.h"

namespace versieve {
namespace {

constexpr double kLinearTileK = 64.0;  // linear, tensor-core form

// How the tensor-core form of that time cut K: a function of K and M alone.
double linear_slices(double k, double m) {
  const double tiles = std::ceil(m / 64.0);
  double slices = 1.0;
  while (slices < 8.0 && tiles * slices < 256.0 && k / (2.0 * slices) >= 256.0) {
    slices *= 2.0;
  }
  return slices;
}

// Row tiles of one weight tile run side by side, so repeated loads of weights find them in L2.
void add_linear(const Pass& p, double times, std::int64_t k, std::int64_t m, StepWork& out) {
  const Traffic t = traffic::linear(p.whole_rows(), k, m, p.element_bytes, p.weights);
  const double row_tiles = std::ceil(p.rows / 128.0);
  const double slices = linear_slices(number(k), number(m));
  LaunchWork work = reloading(LaunchKind::kLinear, p.matrices, times * p.times, t, p.weights,
                              row_tiles * number(m * k * p.element_bytes),
                              row_tiles * slices * std::ceil(number(m) / 64.0),
                              number(k) / slices / kLinearTileK);
  work.reuse_distance = 0.0;
  out.add(work);
}

void add_rope(const Pass& p, std::int64_t heads, std::int64_t head_dim, StepWork& out) {
  out.add(streaming(LaunchKind::kRope, p.other, p.times,
                    traffic::rope(p.whole_rows(), heads, head_dim, p.element_bytes), p.rows,
                    number(heads * head_dim) / kRowElementsPerStep));
}

void add_elementwise(LaunchKind kind, const Pass& p, std::int64_t width, std::int64_t inputs,
                     double flops, StepWork& out) {
  out.add(streaming(kind, p.other, p.times,
                    traffic::elementwise(p.whole_rows() * width, inputs, p.element_bytes, flops),
                    p.rows * number(width) / kElementsPerBlock, 1.0));
}

// From the output projection to the end of the MLP.
void add_output_and_mlp(const Pass& p, std::int64_t q_width, std::int64_t hidden,
                        std::int64_t intermediate, StepWork& out) {
  add_linear(p, 1.0, q_width, hidden, out);
  add_norm(p, 1.0, hidden, out);
  add_linear(p, 2.0, hidden, intermediate, out);
  add_elementwise(LaunchKind::kSwiglu, p, intermediate, 2, 5.0, out);
  add_linear(p, 1.0, intermediate, hidden, out);
}

void add_target(const StepShape& s, double growth, StepWork& out) {
  const LlmShape& t = s.target;
  const Pass layer{
      .rows = number(s.num_queries), .times = number(t.layers), .element_bytes = s.element_bytes};
  Pass once = layer;
  once.times = 1.0;
  const double captures = s.tree.speculates() ? 3.0 : 0.0;
  add_copy(once, 1.0 + captures, t.hidden, TrafficTerm::kActivations, out);
  add_norm(layer, 1.0, t.hidden, out);
  add_linear(layer, 1.0, t.hidden, t.q_width(), out);
  add_linear(layer, 2.0, t.hidden, t.kv_width(), out);
  add_linear(layer, 1.0, t.hidden, 3 * t.num_heads, out);
  add_elementwise(LaunchKind::kSigmoid, layer, 3 * t.num_heads, 1, 3.0, out);
  add_rope(layer, t.num_heads, t.head_dim, out);
  add_rope(layer, t.num_kv_heads, t.head_dim, out);
  add_listed_compress(s, layer, out);
  add_attention_layers(s, growth, out);
  add_output_and_mlp(layer, t.q_width(), t.hidden, t.intermediate, out);
  add_norm(once, 1.0, t.hidden, out);
  add_linear(once, 1.0, t.hidden, t.vocab, out);
}

void add_draft_attention(const StepShape& s, const Pass& pass, StepWork& out) {
  const DraftShape& d = s.draft;
  const Traffic t = traffic::tree_attention({.num_heads = d.num_heads,
                                             .num_kv_heads = d.num_kv_heads,
                                             .head_dim = d.head_dim,
                                             .context_len = s.context_len,
                                             .first_position = 0,
                                             .window = d.window,
                                             .num_queries = pass.whole_rows(),
                                             .num_nodes = s.tree.nodes,
                                             .element_bytes = s.element_bytes,
                                             .cache_term = TrafficTerm::kDraft});
  const double keys = number(std::min(d.window, s.context_len));
  const double token = number(2 * d.num_kv_heads * d.head_dim * s.element_bytes);
  out.add(reloading(LaunchKind::kTreeAttention, Phase::kDraft, pass.times, t, TrafficTerm::kDraft,
                    pass.rows * keys * token, pass.rows * number(d.num_kv_heads),
                    keys / kKeysPerStep));
}

// The first pass takes in the newest committed tokens, the others the best nodes of a level.
void add_draft(const StepShape& s, StepWork& out) {
  const DraftShape& d = s.draft;
  const DraftPasses grown = draft_passes(s.tree);
  const Pass pass{.rows = grown.rows,
                  .times = grown.passes,
                  .matrices = Phase::kDraft,
                  .other = Phase::kDraft,
                  .weights = TrafficTerm::kDraft,
                  .element_bytes = s.element_bytes};
  Pass first = pass;
  first.times = 1.0;
  add_copy(first, 1.0, 3 * d.hidden, TrafficTerm::kDraft, out);
  add_linear(first, 1.0, 3 * d.hidden, d.hidden, out);
  add_copy(pass, 2.0, d.hidden, TrafficTerm::kDraft, out);
  add_norm(pass, 2.0, d.hidden, out);
  add_linear(pass, 2.0, 2 * d.hidden, d.num_kv_heads * d.head_dim, out);
  add_linear(pass, 1.0, 2 * d.hidden, d.num_heads * d.head_dim, out);
  add_rope(pass, d.num_heads, d.head_dim, out);
  add_rope(pass, d.num_kv_heads, d.head_dim, out);
  add_draft_attention(s, pass, out);
  add_output_and_mlp(pass, d.num_heads * d.head_dim, d.hidden, d.intermediate, out);
  add_norm(pass, 1.0, d.hidden, out);
  add_linear(pass, 1.0, d.hidden, d.vocab, out);
  add_logits(pass, d.vocab, s.tree.width, Phase::kDraft, out);
  out.host_trips += grown.passes;
}

// Accepted rows of all layers move into the cache: keys, values and keys before rotary.
void add_commit(const StepShape& s, StepWork& out) {
  const LlmShape& t = s.target;
  const Pass rows{.rows = number(t.layers) * committed_tokens(s),
                  .matrices = Phase::kAcceptance,
                  .other = Phase::kAcceptance,
                  .element_bytes = s.element_bytes};
  const double keeps_raw = t.compress_stage == CompressStage::kBeforeRope ? 1.0 : 0.0;
  add_copy(rows, 2.0 + keeps_raw, t.kv_width(), TrafficTerm::kKvAppend, out);
}

}  // namespace

void add_separate_step(const StepShape& s, double growth, StepWork& out) {
  add_target(s, growth, out);
  if (s.tree.speculates()) {
    add_draft(s, out);
  }
  const Pass once{.rows = number(s.num_queries), .element_bytes = s.element_bytes};
  add_logits(once, s.target.vocab, 1, Phase::kAcceptance, out);
  add_commit(s, out);
  out.host_trips += 3.0;  // verification, acceptance and commit end with a wait each
}

}  // namespace versieve
