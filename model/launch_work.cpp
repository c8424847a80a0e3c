#include "model/launch_work.h"

#include <algorithm>
#include <cmath>

#include "model/assert.h"
#include "model/op_traffic.h"

namespace versieve {
namespace {

constexpr std::array<const char*, kLaunchKindCount> kNames = {
    "nsa_compressed", "nsa_select", "nsa_selected",   "nsa_window", "nsa_combine",
    "linear",         "rms_norm",   "rope",           "swiglu",     "sigmoid",
    "copy_rows",      "compress",   "tree_attention", "top_logits", "tree_sample"};

// Threads of an elementwise block, keys that a block takes in one dependent step.
constexpr double kElementsPerBlock = 256.0;
constexpr double kKeysPerStep = 32.0;

double number(std::int64_t value) {
  return static_cast<double>(value);
}

double at_least_one(double value) {
  return std::max(1.0, value);
}

// Launches whose bytes are all used once.
LaunchWork streaming(LaunchKind kind, Phase phase, double launches, const Traffic& traffic,
                     double blocks, double steps) {
  return {.kind = kind,
          .phase = phase,
          .launches = launches,
          .unique = traffic,
          .loaded = 0.0,
          .reused = 0.0,
          .blocks = at_least_one(blocks),
          .steps = at_least_one(steps),
          .working_set = traffic.total()};
}

// Launches whose thread blocks load the bytes of one cached term, `reused` in all, again and again.
LaunchWork reloading(LaunchKind kind, Phase phase, double launches, const Traffic& traffic,
                     TrafficTerm cached, double loaded, double blocks, double steps) {
  LaunchWork work = streaming(kind, phase, launches, traffic, blocks, steps);
  work.reused = traffic.read_bytes[static_cast<std::size_t>(cached)];
  work.loaded = std::max(work.reused, loaded);
  return work;
}

// Rows of one forward pass and where its time is booked.
struct Pass {
  std::int64_t rows = 1;
  double times = 1.0;  // how often the pass (or layer) runs in a step
  Phase matrices = Phase::kMatrices;
  Phase other = Phase::kOther;
  TrafficTerm weights = TrafficTerm::kWeights;
  std::int64_t element_bytes = 2;
};

void add_linear(const Pass& p, double times, std::int64_t k, std::int64_t m, StepWork& out) {
  const Traffic t = traffic::linear(p.rows, k, m, p.element_bytes, p.weights);
  const double row_tiles = std::ceil(number(p.rows) / 16.0);
  const double weight_bytes = number(m * k * p.element_bytes);
  out.add(reloading(LaunchKind::kLinear, p.matrices, times * p.times, t, p.weights,
                    row_tiles * weight_bytes, row_tiles * std::ceil(number(m) / 64.0),
                    number(k) / kKeysPerStep));
}

void add_norm(const Pass& p, double times, std::int64_t width, StepWork& out) {
  out.add(streaming(LaunchKind::kRmsNorm, p.other, times * p.times,
                    traffic::rms_norm(p.rows, width, p.element_bytes), number(p.rows),
                    number(width) / kElementsPerBlock));
}

void add_rope(const Pass& p, std::int64_t heads, std::int64_t head_dim, StepWork& out) {
  const double count = number(p.rows * heads * head_dim);
  out.add(streaming(LaunchKind::kRope, p.other, p.times,
                    traffic::rope(p.rows, heads, head_dim, p.element_bytes),
                    count / kElementsPerBlock, 1.0));
}

void add_elementwise(LaunchKind kind, const Pass& p, std::int64_t width, std::int64_t inputs,
                     double flops, StepWork& out) {
  const std::int64_t count = p.rows * width;
  out.add(streaming(kind, p.other, p.times,
                    traffic::elementwise(count, inputs, p.element_bytes, flops),
                    number(count) / kElementsPerBlock, 1.0));
}

void add_copy(const Pass& p, double times, std::int64_t width, TrafficTerm term, StepWork& out) {
  out.add(streaming(LaunchKind::kCopyRows, p.other, times * p.times,
                    traffic::copy_rows(p.rows, width, p.element_bytes, term),
                    number(p.rows * width) / kElementsPerBlock, 1.0));
}

void add_logits(const Pass& p, std::int64_t vocab, std::int64_t k, Phase phase, StepWork& out) {
  out.add(streaming(LaunchKind::kTopLogits, phase, p.times,
                    traffic::top_logits(p.rows, vocab, k, p.element_bytes), number(p.rows),
                    number(vocab) / kElementsPerBlock));
}

// Projections, norms, rotary and MLP around one layer's attention.
void add_layer_matrices(const Pass& p, std::int64_t input, std::int64_t hidden,
                        std::int64_t intermediate, std::int64_t heads, std::int64_t kv_heads,
                        std::int64_t head_dim, StepWork& out) {
  add_norm(p, 2.0, hidden, out);
  add_linear(p, 1.0, input, heads * head_dim, out);
  add_linear(p, 2.0, input, kv_heads * head_dim, out);
  add_rope(p, heads, head_dim, out);
  add_rope(p, kv_heads, head_dim, out);
  add_linear(p, 1.0, heads * head_dim, hidden, out);
  add_linear(p, 2.0, hidden, intermediate, out);
  add_elementwise(LaunchKind::kSwiglu, p, intermediate, 2, 5.0, out);
  add_linear(p, 1.0, intermediate, hidden, out);
}

void add_target(const StepShape& s, double growth, StepWork& out) {
  const LlmShape& t = s.target;
  Pass layer{.rows = s.num_queries, .times = number(t.layers), .element_bytes = s.element_bytes};
  Pass once = layer;
  once.times = 1.0;
  add_copy(once, 1.0, t.hidden, TrafficTerm::kActivations, out);
  add_layer_matrices(layer, t.hidden, t.hidden, t.intermediate, t.num_heads, t.num_kv_heads,
                     t.head_dim, out);
  add_linear(layer, 1.0, t.hidden, 3 * t.num_heads, out);
  add_elementwise(LaunchKind::kSigmoid, layer, 3 * t.num_heads, 1, 3.0, out);
  const traffic::NsaVerifyShape attention = attention_shape(s, growth);
  add_attention(attention, false, number(s.refresh_layers), out);
  add_attention(attention, true, number(s.reuse_layers), out);
  add_norm(once, 1.0, t.hidden, out);
  add_linear(once, 1.0, t.hidden, t.vocab, out);
}

// One forward pass of the draft a level: the first takes the newest committed tokens, the others
// the `width` best nodes of the level above.
void add_draft(const StepShape& s, StepWork& out) {
  const DraftShape& d = s.draft;
  Pass pass{.rows = s.tree.width,
            .times = number(s.tree.depth),
            .matrices = Phase::kDraft,
            .other = Phase::kDraft,
            .weights = TrafficTerm::kDraft,
            .element_bytes = s.element_bytes};
  Pass first = pass;
  first.times = 1.0;
  add_linear(first, 1.0, 3 * d.hidden, d.hidden, out);
  add_layer_matrices(pass, 2 * d.hidden, d.hidden, d.intermediate, d.num_heads, d.num_kv_heads,
                     d.head_dim, out);
  const double keys = number(std::min(d.window, s.context_len));
  Traffic window;
  const double kv = 2.0 * number(d.num_kv_heads * d.head_dim * s.element_bytes);
  const double query = number(pass.rows * d.num_heads * d.head_dim * s.element_bytes);
  window.read(TrafficTerm::kDraft, keys * kv);
  window.read(TrafficTerm::kQueryOutput, query);
  window.write(TrafficTerm::kQueryOutput, query);
  window.flops = 4.0 * number(pass.rows * d.num_heads * d.head_dim) * keys;
  out.add(reloading(LaunchKind::kTreeAttention, Phase::kDraft, pass.times, window,
                    TrafficTerm::kDraft, number(pass.rows) * keys * kv,
                    number(pass.rows * d.num_kv_heads), keys / kKeysPerStep));
  add_norm(pass, 1.0, d.hidden, out);
  add_linear(pass, 1.0, d.hidden, d.vocab, out);
  add_logits(pass, d.vocab, s.tree.width, Phase::kDraft, out);
}

// Accepted rows move into the cache; finished compression blocks are pooled.
void add_commit(const StepShape& s, StepWork& out) {
  const LlmShape& t = s.target;
  const Pass layer{.rows = s.num_queries,
                   .times = number(t.layers),
                   .matrices = Phase::kAcceptance,
                   .other = Phase::kAcceptance,
                   .element_bytes = s.element_bytes};
  add_copy(layer, 2.0, t.kv_width(), TrafficTerm::kKvAppend, out);
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

double distinct_blocks(double queries, double chosen, double blocks, double overlap,
                       double growth) {
  const double picked = std::min(chosen, blocks);
  const double more = growth == 1.0 ? queries - 1.0 : (std::pow(queries, growth) - 1.0) / growth;
  const double distinct = picked * (1.0 + more * (1.0 - overlap));
  return std::clamp(distinct, picked, std::min(queries * picked, blocks));
}

traffic::NsaVerifyShape attention_shape(const StepShape& s, double growth) {
  const LlmShape& t = s.target;
  const double blocks = std::floor(number(s.context_len) / number(t.nsa.sel_block)) + 1.0;
  const double unique = s.unique_blocks > 0.0
                            ? s.unique_blocks
                            : distinct_blocks(number(s.num_queries), number(t.nsa.sel_count),
                                              blocks, s.overlap, growth);
  return {.nsa = t.nsa,
          .num_heads = t.num_heads,
          .num_kv_heads = t.num_kv_heads,
          .head_dim = t.head_dim,
          .context_len = s.context_len,
          .num_queries = s.num_queries,
          .element_bytes = s.element_bytes,
          .unique_blocks = unique};
}

void add_attention(const traffic::NsaVerifyShape& s, bool reuse, double layers, StepWork& out) {
  const double rows = number(s.num_queries);
  const double row_blocks = rows * number(s.num_kv_heads);
  const double blocks = std::floor(number(s.context_len) / number(s.nsa.sel_block)) + 1.0;
  const double chosen = std::min(number(s.nsa.sel_count), blocks);
  const double kv = 2.0 * number(s.num_kv_heads * s.head_dim * s.element_bytes);
  const double keys = number(compressed_count(s.nsa, s.context_len));
  const double window = number(std::min(s.nsa.window, s.context_len));
  const double chosen_keys = std::min(chosen * number(s.nsa.sel_block), number(s.context_len));
  out.add(reloading(LaunchKind::kNsaCompressed, Phase::kAttention, layers,
                    traffic::nsa_compressed(s), TrafficTerm::kCompressedCache, rows * keys * kv,
                    row_blocks, keys / kKeysPerStep));
  if (!reuse) {
    out.add(streaming(LaunchKind::kNsaSelect, Phase::kAttention, layers, traffic::nsa_select(s),
                      row_blocks, blocks / kKeysPerStep + chosen));
  }
  out.add(reloading(LaunchKind::kNsaSelected, Phase::kAttention, layers, traffic::nsa_selected(s),
                    TrafficTerm::kSelectedBlocks, rows * chosen_keys * kv, row_blocks,
                    chosen_keys / kKeysPerStep));
  out.add(reloading(LaunchKind::kNsaWindow, Phase::kAttention, layers, traffic::nsa_window(s),
                    TrafficTerm::kWindow, rows * window * kv, row_blocks, window / kKeysPerStep));
  out.add(streaming(LaunchKind::kNsaCombine, Phase::kAttention, layers, traffic::nsa_combine(s),
                    rows * number(s.num_heads * s.head_dim) / kElementsPerBlock, 1.0));
}

void add_step(const StepShape& s, double growth, StepWork& out) {
  VERSIEVE_ASSERT(s.refresh_layers + s.reuse_layers == s.target.layers, "one letter a layer");
  add_target(s, growth, out);
  if (s.tree.speculates()) {
    add_draft(s, out);
  }
  const Pass once{.rows = s.num_queries, .element_bytes = s.element_bytes};
  add_logits(once, s.target.vocab, 1, Phase::kAcceptance, out);
  add_commit(s, out);
}

}  // namespace versieve
