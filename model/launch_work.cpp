#include "model/launch_work.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"
#include "model/launch_parts.h"
#include "model/op_traffic.h"

namespace versieve {
namespace {

constexpr std::array<const char*, kLaunchKindCount> kNames = {
    "nsa_compressed", "nsa_select", "nsa_selected", "nsa_window",     "nsa_combine", "nsa_route",
    "nsa_attend",     "nsa_reuse",  "linear",       "rms_norm",       "rope",        "swiglu",
    "sigmoid",        "copy_rows",  "compress",     "tree_attention", "top_logits",  "tree_sample"};

// Shapes of the CUDA kernels that dependent steps and waves follow from.
constexpr double kRowElementsPerStep = 1024.0;  // of a block that walks one row
constexpr double kLinearTileK = 64.0;           // linear, tensor-core form

// Rows of one forward pass and where its time is booked.
struct Pass {
  double rows = 1.0;
  double times = 1.0;  // how often the pass (or layer) runs in a step
  Phase matrices = Phase::kMatrices;
  Phase other = Phase::kOther;
  TrafficTerm weights = TrafficTerm::kWeights;
  std::int64_t element_bytes = 2;

  std::int64_t whole_rows() const { return std::max<std::int64_t>(1, std::llround(rows)); }
};

// How the tensor-core form cuts K (kernels/linear/mma.cu): a function of K and M alone.
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

void add_norm(const Pass& p, double times, std::int64_t width, StepWork& out) {
  out.add(streaming(LaunchKind::kRmsNorm, p.other, times * p.times,
                    traffic::rms_norm(p.whole_rows(), width, p.element_bytes), p.rows,
                    number(width) / kRowElementsPerStep));
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

void add_copy(const Pass& p, double times, std::int64_t width, TrafficTerm term, StepWork& out) {
  out.add(streaming(LaunchKind::kCopyRows, p.other, times * p.times,
                    traffic::copy_rows(p.whole_rows(), width, p.element_bytes, term), p.rows,
                    number(width) / kRowElementsPerStep));
}

void add_logits(const Pass& p, std::int64_t vocab, std::int64_t k, Phase phase, StepWork& out) {
  out.add(streaming(LaunchKind::kTopLogits, phase, p.times,
                    traffic::top_logits(p.whole_rows(), vocab, k, p.element_bytes), p.rows,
                    number(vocab) / kRowElementsPerStep));
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

// The node whose position completes a compression block forms one more compressed token.
void add_compress(const StepShape& s, const Pass& layer, StepWork& out) {
  const double levels = s.tree.speculates() ? number(s.tree.depth) + 1.0 : 1.0;
  const double times = layer.times * std::min(1.0, levels / number(s.target.nsa.cmp_stride));
  const std::int64_t rows = std::max<std::int64_t>(1, std::llround(layer.rows / levels));
  const Traffic t = traffic::compress({.rows = rows,
                                       .num_kv_heads = s.target.num_kv_heads,
                                       .head_dim = s.target.head_dim,
                                       .cmp_block = s.target.nsa.cmp_block,
                                       .cmp_stride = s.target.nsa.cmp_stride,
                                       .element_bytes = s.element_bytes});
  out.add(streaming(LaunchKind::kCompress, layer.other, times, t,
                    number(rows * s.target.num_kv_heads), number(s.target.nsa.cmp_block)));
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
  add_compress(s, layer, out);
  const traffic::NsaVerifyShape attention = attention_shape(s, growth);
  add_attention(attention, s.form, false, number(s.refresh_layers), out);
  add_attention(attention, s.form, true, number(s.reuse_layers), out);
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
  const double accepted = s.tree.speculates() ? 1.0 + 0.5 * number(s.tree.depth) : 1.0;
  const Pass rows{.rows = number(t.layers) * accepted,
                  .matrices = Phase::kAcceptance,
                  .other = Phase::kAcceptance,
                  .element_bytes = s.element_bytes};
  const double keeps_raw = t.compress_stage == CompressStage::kBeforeRope ? 1.0 : 0.0;
  add_copy(rows, 2.0 + keeps_raw, t.kv_width(), TrafficTerm::kKvAppend, out);
}

}  // namespace

const char* name_of(LaunchKind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<LaunchKind> launch_kind(std::string_view path) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (path == kNames[i]) {
      return static_cast<LaunchKind>(i);
    }
  }
  return {};
}

void StepWork::add(const LaunchWork& launch) {
  VERSIEVE_ASSERT(count < kCapacity, "a step has at most kCapacity kinds of launch");
  if (launch.launches > 0.0) {
    work[count++] = launch;
  }
}

DraftPasses draft_passes(const DraftChoice& choice) {
  if (!choice.speculates()) {
    return {};
  }
  // Path scores are sums of ranks; candidates are counted by score.
  constexpr std::size_t kScores = 33 * 64 + 1;
  const std::size_t scores = static_cast<std::size_t>((choice.depth + 1) * choice.width + 1);
  VERSIEVE_ASSERT(scores <= kScores, "strategy texts stop at depth 32 and width 64");
  std::array<std::int64_t, kScores> level{};
  std::array<std::int64_t, kScores> all{};
  for (std::int64_t rank = 1; rank <= choice.width; ++rank) {
    level[static_cast<std::size_t>(rank)] = 1;
  }
  DraftPasses out{.passes = 1.0, .rows = 1.0};  // the first reads out one row
  double rows = 1.0;
  const std::int64_t last = std::min(choice.depth, choice.nodes - 1);
  for (std::int64_t depth = 1; depth < last; ++depth) {
    std::int64_t better = 0;
    std::size_t bar = 0;  // the score of the (nodes - 1)-th best candidate so far, or none
    for (std::size_t s = 0; s < scores; ++s) {
      all[s] += level[s];
      better += all[s];
      bar = bar == 0 && better >= choice.nodes - 1 ? s : bar;
    }
    std::array<std::int64_t, kScores> next{};
    std::int64_t taken = 0;
    for (std::size_t s = 0; s < (bar == 0 ? scores : bar) && taken < choice.width; ++s) {
      const std::int64_t count = std::min(level[s], choice.width - taken);
      taken += count;
      for (std::size_t rank = 1; count > 0 && rank <= static_cast<std::size_t>(choice.width);
           ++rank) {
        next[s + rank] += count;
      }
    }
    if (taken == 0) {
      break;
    }
    out.passes += 1.0;
    rows += static_cast<double>(taken);
    level = next;
  }
  out.rows = rows / out.passes;
  return out;
}

double distinct_blocks(double queries, double chosen, double blocks, double overlap,
                       double growth) {
  const double picked = std::min(chosen, blocks);
  const double more = growth == 1.0 ? queries - 1.0 : (std::pow(queries, growth) - 1.0) / growth;
  const double distinct = picked * (1.0 + more * (1.0 - overlap));
  return std::clamp(distinct, picked, std::min(queries * picked, blocks));
}

void add_step(const StepShape& s, double growth, StepWork& out) {
  VERSIEVE_ASSERT(s.refresh_layers + s.reuse_layers == s.target.layers, "one letter a layer");
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
