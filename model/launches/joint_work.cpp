// Steps as the engine enqueues them now: one linear layer for q, k, v and gates, rotary together
// with the rows of the cache, one linear layer for gate and up with SwiGLU within. A step that the
// host leads asks it for each level of the draft; a recorded one has the launches of
// kernels/draft_tree in their place, and sizes that are bounds.
#include <algorithm>
#include <cmath>

#include "model/launches/draft_levels.h"
#include "model/launches/launch_parts.h"
#include "model/launches/linear_cut.h"
#include "model/launches/op_traffic.h"
#include "model/launches/system_work.h"
#include "model/launches/tree_attention_cut.h"

namespace versieve {
namespace {

enum class Output { kPlain, kSwiglu, kWeighted };  // kWeighted: a norm follows

// Row tiles of one weight tile run side by side, so repeated loads of weights find them in L2;
// every tile of weights loads the rows of x beside. `copied` of the launches write their rows
// twice.
void add_linear(const Pass& p, std::int64_t k, std::int64_t m, Output output, StepWork& out,
                double copied = 0.0) {
  const bool swiglu = output == Output::kSwiglu;
  const std::int64_t weight_rows = swiglu ? 2 * m : m;
  Traffic t = swiglu ? traffic::linear_swiglu(p.whole_rows(), k, m, p.element_bytes, p.weights)
                     : traffic::linear(p.whole_rows(), k, m, p.element_bytes, p.weights);
  if (output == Output::kWeighted) {
    t += traffic::weighted_rows(p.whole_rows(), m, p.element_bytes);
  }
  if (copied > 0.0) {
    t += scaled(traffic::kept_rows(p.whole_rows(), m, p.element_bytes), copied / p.times);
  }
  const double node_tiles =
      std::ceil(p.rows / number(linear_tile_nodes(p.whole_rows(), k, m, swiglu)));
  const double row_tiles = number(linear_row_tiles(k, m, swiglu));
  const double weights = node_tiles * number(weight_rows * k * p.element_bytes);
  const double rows_again = (row_tiles - 1.0) * number(p.whole_rows() * k * p.element_bytes);
  LaunchWork work =
      reloading(LaunchKind::kLinear, p.matrices, p.times, t, p.weights, weights + rows_again,
                node_tiles * row_tiles * linear_cut(k, m, swiglu).slices, 0.0);
  work.streams = true;
  work.steps = 0.0;  // a ring's progress is its flow
  work.reuse_distance = 0.0;
  out.add(work);
}

// What a forward begins with (kernels/embed): `halves` rows a node gathered and normed, or weighted
// for the layer that divides, one of them kept as it is too if `keeps`; the nodes' rotary angles.
void add_embed(const Pass& p, std::int64_t halves, std::int64_t width, bool keeps,
               std::int64_t head_dim, StepWork& out) {
  Traffic t = traffic::rope_table(p.whole_rows(), head_dim, sizeof(float));
  for (std::int64_t i = 0; i < halves; ++i) {
    t += traffic::rms_norm(p.whole_rows(), width, p.element_bytes);
  }
  if (keeps) {
    t += traffic::kept_rows(p.whole_rows(), width, p.element_bytes);
  }
  out.add(streaming(LaunchKind::kRmsNorm, p.other, p.times, t, p.rows * number(halves),
                    number(width) / kRowElementsPerStep));
}

struct JointRow {
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, gates = 0;
  bool keeps_raw_keys = false;
  bool keeps_cache_rows = false;  // keys and values go to two places
  Traffic pooled = {};            // compressed tokens

  std::int64_t width() const { return (heads + 2 * kv_heads) * head_dim + gates; }
};

// The joint projection of `inputs` features and what takes its rows apart, and pools.
void add_projection(const Pass& p, std::int64_t inputs, const JointRow& row, StepWork& out) {
  add_linear(p, inputs, row.width(), Output::kPlain, out);
  Traffic t = traffic::rope_append(p.whole_rows(), row.heads, row.kv_heads, row.head_dim, row.gates,
                                   row.keeps_raw_keys, p.element_bytes);
  if (row.keeps_cache_rows) {
    t += traffic::kept_rows(p.whole_rows(), 2 * row.kv_heads * row.head_dim, p.element_bytes);
  }
  t += row.pooled;
  // A thread takes one unit of a row, however wide (kernels/rope_append).
  out.add(streaming(LaunchKind::kRope, p.other, p.times, t, p.rows, 1.0));
}

// From the output projection to the end of the MLP; the norm after each is folded into both sides.
// `captures` of the streams that leave it are kept.
void add_output_and_mlp(const Pass& p, std::int64_t q_width, std::int64_t hidden,
                        std::int64_t intermediate, StepWork& out, double captures = 0.0) {
  add_linear(p, q_width, hidden, Output::kWeighted, out);
  add_linear(p, hidden, intermediate, Output::kSwiglu, out);
  add_linear(p, intermediate, hidden, Output::kWeighted, out, captures);
}

// Streams that are kept for the draft: where a layer writes them, or by copies (the embedding, and
// a stream that is kept again).
struct Captures {
  double written = 0.0;
  double copied = 0.0;
};

Captures captures_of(const StepShape& s) {
  Captures captures;
  const std::int64_t* const first = s.draft.capture_layers;
  for (const std::int64_t* layer = first; s.tree.speculates() && layer != first + 3; ++layer) {
    const bool copied = *layer == 0 || std::find(first, layer, *layer) != layer;
    (copied ? captures.copied : captures.written) += 1.0;
  }
  return captures;
}

// The target's layers, launch by launch.
void add_layers(const StepShape& s, const Pass& layer, double growth, StepWork& out) {
  const LlmShape& t = s.target;
  const bool dense = t.attention == AttentionKind::kDense;
  add_projection(layer, t.hidden,
                 {.heads = t.num_heads,
                  .kv_heads = t.num_kv_heads,
                  .head_dim = t.head_dim,
                  .gates = dense ? 0 : 3 * t.num_heads,
                  .keeps_raw_keys = !dense && t.compress_stage == CompressStage::kBeforeRope,
                  .pooled = dense ? Traffic{} : pooled_tokens(s)},
                 out);
  if (dense) {
    add_dense_attention(s, layer.times, out);
  } else {
    add_attention_layers(s, growth, out);
  }
  add_output_and_mlp(layer, t.q_width(), t.hidden, t.intermediate, out, captures_of(s).written);
}

void add_target(const StepShape& s, double growth, StepWork& out) {
  const LlmShape& t = s.target;
  const Pass layer{
      .rows = number(s.num_queries), .times = number(t.layers), .element_bytes = s.element_bytes};
  Pass once = layer;
  once.times = 1.0;
  add_embed(once, 1, t.hidden, true, t.head_dim, out);
  if (const double copied = captures_of(s).copied; copied > 0.0) {
    add_copy(once, copied, t.hidden, TrafficTerm::kActivations, out);
  }
  if (s.one_launch) {
    add_decode_layers(s, growth, out);
  } else {
    add_layers(s, layer, growth, out);
  }
  add_linear(once, t.hidden, t.vocab, Output::kPlain, out);
}

// Sizes of the draft's launches: the newest tokens' entries, then one row read out, then levels.
struct DraftRun {
  double entries = 1.0;
  double levels = 1.0;      // the first reads out one row
  double level_rows = 1.0;  // of the others
};

DraftRun draft_run(const StepShape& s) {
  if (s.recorded) {
    const double levels = number(s.tree.levels());
    return {.entries = levels + 1.0, .levels = levels, .level_rows = number(s.tree.width)};
  }
  const DraftPasses grown = draft_passes(s.tree);
  return {.entries = committed_tokens(s),
          .levels = grown.passes,
          .level_rows = (grown.rows * grown.passes - 1.0) / at_least_one(grown.passes - 1.0)};
}

// `joint`: of rows that it takes apart itself.
void add_draft_attention(const StepShape& s, const Pass& pass, double nodes, bool joint,
                         StepWork& out) {
  const DraftShape& d = s.draft;
  Traffic t = traffic::tree_attention({.num_heads = d.num_heads,
                                       .num_kv_heads = d.num_kv_heads,
                                       .head_dim = d.head_dim,
                                       .context_len = s.context_len,
                                       .first_position = 1,
                                       .window = d.window,
                                       .num_queries = pass.whole_rows(),
                                       .num_nodes = std::llround(nodes),
                                       .element_bytes = s.element_bytes,
                                       .cache_term = TrafficTerm::kDraft});
  if (joint) {
    t += traffic::turned_rows(pass.whole_rows(), d.num_heads, d.num_kv_heads, d.head_dim,
                              s.element_bytes);
  }
  const double keys = number(std::min(d.window, s.context_len));
  const double token = number(2 * d.num_kv_heads * d.head_dim * s.element_bytes);
  const std::int64_t group_heads = d.num_heads / d.num_kv_heads;
  const TreeAttentionCut cut = tree_attention_cut(group_heads, pass.whole_rows() * d.num_kv_heads);
  const double parts = number(cut.parts);
  // A block of fewer heads is through sooner: its warps are bound by the instructions of a key.
  const double share =
      number(std::min(cut.heads, group_heads)) / number(std::min(kTreeTileHeads, group_heads));
  out.add(reloading(LaunchKind::kTreeAttention, Phase::kDraft, pass.times, t, TrafficTerm::kDraft,
                    parts * pass.rows * keys * token, parts * pass.rows * number(d.num_kv_heads),
                    share * keys / kKeysPerStep));
}

// Attention over `nodes` draft nodes and the window, then the rest of the layer and the head.
void add_draft_layer(const StepShape& s, const Pass& pass, double nodes, bool joint,
                     StepWork& out) {
  const DraftShape& d = s.draft;
  add_draft_attention(s, pass, nodes, joint, out);
  add_output_and_mlp(pass, d.num_heads * d.head_dim, d.hidden, d.intermediate, out);
  add_linear(pass, d.hidden, d.vocab, Output::kPlain, out);
  add_logits(pass, d.vocab, std::min(s.tree.width, d.vocab), Phase::kDraft, out);
}

// Queries, keys and values of the newest tokens, then the newest one's output.
void add_entries(const StepShape& s, const Pass& entries, const Pass& one, StepWork& out) {
  const DraftShape& d = s.draft;
  add_copy(entries, 1.0, 3 * d.hidden, TrafficTerm::kDraft, out);
  add_linear(entries, 3 * d.hidden, d.hidden, Output::kPlain, out);
  add_embed(entries, 2, d.hidden, false, d.head_dim, out);
  add_projection(entries, 2 * d.hidden,
                 {.heads = d.num_heads,
                  .kv_heads = d.num_kv_heads,
                  .head_dim = d.head_dim,
                  .keeps_cache_rows = s.recorded},
                 out);
  add_draft_layer(s, one, 1.0, false, out);
}

void add_grow_tree(const StepShape& s, double times, std::int64_t parents, StepWork& out) {
  const std::int64_t children = parents * std::min(s.tree.width, s.draft.vocab);
  out.add(streaming(LaunchKind::kGrowTree, Phase::kDraft, times,
                    traffic::grow_tree(s.tree.nodes, children), 1.0,
                    number(s.tree.nodes) / kPlacesPerStep));
}

// Of a recorded step, in bf16, where the engine does so.
bool drafts_at_once(const StepShape& s) {
  return s.recorded && s.element_bytes == 2 &&
         drafts_in_one_launch(s.draft, s.target.vocab, s.tree);
}

void add_draft(const StepShape& s, StepWork& out) {
  if (drafts_at_once(s)) {
    add_draft_levels(s, out);
    return;
  }
  const DraftShape& d = s.draft;
  const DraftRun run = draft_run(s);
  const Pass one{.matrices = Phase::kDraft,
                 .other = Phase::kDraft,
                 .weights = TrafficTerm::kDraft,
                 .element_bytes = s.element_bytes};
  Pass entries = one;
  entries.rows = run.entries;
  add_entries(s, entries, one, out);
  Pass level = one;
  level.rows = run.level_rows;
  level.times = run.levels - 1.0;
  add_embed(level, 2, d.hidden, true, d.head_dim, out);  // features of earlier outputs, kept
  const JointRow row{.heads = d.num_heads, .kv_heads = d.num_kv_heads, .head_dim = d.head_dim};
  add_linear(level, 2 * d.hidden, row.width(), Output::kPlain, out);
  add_draft_layer(s, level, 1.0 + 0.5 * run.levels * run.level_rows, true, out);
  if (s.recorded) {
    add_grow_tree(s, 1.0, 1, out);
    add_grow_tree(s, level.times, s.tree.width, out);
  } else {
    out.host_trips += run.levels;
  }
}

void add_tree_launch(LaunchKind kind, Phase phase, const Traffic& traffic, const StepShape& s,
                     StepWork& out) {
  out.add(streaming(kind, phase, 1.0, traffic, 1.0, number(s.num_queries) / kPlacesPerStep));
}

// Accepted rows of all layers into the caches: one launch of bounds, or what the host lists, kind
// by kind of row; compressed rows where the path completes a block.
void add_commit(const StepShape& s, StepWork& out) {
  const LlmShape& t = s.target;
  if (s.recorded) {
    const std::int64_t path = s.tree.levels() + 1;
    out.add(streaming(LaunchKind::kCommitPath, Phase::kAcceptance, 1.0,
                      traffic::commit_path(t.layers, path, t.kv_width(), s.element_bytes),
                      5.0 * number(t.layers * path), 1.0));
    return;
  }
  const double accepted = committed_tokens(s);
  const Pass rows{.rows = number(t.layers) * accepted,
                  .matrices = Phase::kAcceptance,
                  .other = Phase::kAcceptance,
                  .element_bytes = s.element_bytes};
  const bool dense = t.attention == AttentionKind::kDense;
  const double keeps_raw = !dense && t.compress_stage == CompressStage::kBeforeRope ? 1.0 : 0.0;
  add_copy(rows, 2.0 + keeps_raw, t.kv_width(), TrafficTerm::kKvAppend, out);
  if (dense) {
    return;
  }
  Pass completed = rows;
  completed.rows = number(t.layers);
  completed.times = std::min(1.0, accepted / number(t.nsa.cmp_stride));
  add_copy(completed, 2.0, t.kv_width(), TrafficTerm::kKvAppend, out);
}

// Kinds that are launched as programmatic dependents (kernels/common/dependent_launch.cuh).
constexpr bool is_dependent(LaunchKind kind) {
  return kind == LaunchKind::kLinear || kind == LaunchKind::kRmsNorm || kind == LaunchKind::kRope ||
         kind == LaunchKind::kTopLogits;
}

}  // namespace

void add_joint_step(const StepShape& s, double growth, StepWork& out) {
  if (s.tree.speculates()) {
    add_draft(s, out);
  }
  if (s.recorded) {
    add_tree_launch(LaunchKind::kFinishTree, Phase::kOther, traffic::finish_tree(s.num_queries), s,
                    out);
  }
  add_target(s, growth, out);
  const Pass once{.rows = number(s.num_queries), .element_bytes = s.element_bytes};
  add_logits(once, s.target.vocab, 1, Phase::kAcceptance, out);
  if (s.recorded) {
    add_tree_launch(LaunchKind::kAcceptTree, Phase::kAcceptance,
                    traffic::accept_tree(s.num_queries), s, out);
  }
  add_commit(s, out);
  out.host_trips +=
      s.recorded ? 0.0 : 3.0;  // verification, acceptance and commit each end in a wait
  for (std::size_t i = 0; i < out.count; ++i) {
    out.work[i].dependent = out.work[i].dependent || is_dependent(out.work[i].kind);
  }
}

}  // namespace versieve
