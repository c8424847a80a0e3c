#include "model/launches/step_composition.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "model/launches/compress.h"
#include "model/launches/decode_layers.h"
#include "model/launches/dense_attention.h"
#include "model/launches/draft_levels.h"
#include "model/launches/draft_tree.h"
#include "model/launches/launch_parts.h"
#include "model/launches/linear.h"
#include "model/launches/nsa_fused.h"
#include "model/launches/nsa_vanilla.h"
#include "model/launches/rope_append.h"
#include "model/launches/row_ops.h"
#include "model/launches/sampling.h"
#include "model/launches/top_logits.h"
#include "model/launches/tree_attention.h"
#include "model/words/assert.h"

namespace versieve {
namespace {

// The same launch of no blocks, each of them as deep.
LaunchWork without_blocks(const LaunchWork& launch) {
  LaunchWork none = launch;
  none.unique = {};
  none.loaded = none.reused = none.blocks = none.working_set = 0.0;
  return none;
}

// The place of a launch of `one` among those of `all` from `first` on: its kind in such layers, as
// often named before it; past them where no context before had such a launch (a short row's top-k
// beside a long one's: kernels/topk/launch.cu launches both).
std::size_t place_of(const StepWork& one, std::size_t index, std::size_t first,
                     const StepWork& all) {
  const auto alike = [&](const LaunchWork& launch) {
    return launch.kind == one.work[index].kind && launch.layer == one.work[index].layer;
  };
  std::ptrdiff_t earlier = std::count_if(one.begin(), one.begin() + index, alike);
  std::size_t place = first;
  while (place < all.count && !(alike(all.work[place]) && earlier-- == 0)) {
    ++place;
  }
  return place;
}

// Takes the launches of one more request's context into the mean, from `first` on, of `requests`
// before it. One that a context does without has no blocks there.
void mix(const StepWork& one, double requests, std::size_t first, StepWork& all) {
  const double share = 1.0 / (requests + 1.0);
  const std::size_t known = all.count;
  std::array<bool, StepWork::kCapacity> taken{};
  const auto take = [share](const LaunchWork& launch, LaunchWork& m) {
    const auto into = [share](double value, double& of) { of += share * (value - of); };
    m.unique = scaled(m.unique, 1.0 - share);
    m.unique += scaled(launch.unique, share);
    into(launch.loaded, m.loaded);
    into(launch.reused, m.reused);
    into(launch.blocks, m.blocks);
    into(launch.steps, m.steps);
    into(launch.rounds, m.rounds);
    into(launch.working_set, m.working_set);
    into(launch.reuse_distance, m.reuse_distance);
    into(launch.handover_distance, m.handover_distance);
  };
  for (std::size_t i = 0; i < one.count; ++i) {
    const std::size_t place = place_of(one, i, first, all);
    if (place == all.count) {
      all.add(without_blocks(one.work[i]));
    }
    taken[place] = true;
    take(one.work[i], all.work[place]);
  }
  for (std::size_t place = first; place < known; ++place) {
    if (!taken[place]) {
      take(without_blocks(all.work[place]), all.work[place]);
    }
  }
}

// Both refresh and reuse layers, of requests alike.
void add_alike(const StepShape& s, double growth, StepWork& out) {
  if (s.target.attention == AttentionKind::kDense) {
    const std::size_t first = out.count;
    add_dense_attention(s, number(s.target.layers), out);
    widen_from(first, number(s.requests), s.ragged, out);
    return;
  }
  const traffic::NsaVerifyShape attention = attention_shape(s, growth);
  const double launches = s.ragged ? 1.0 : number(s.requests);
  add_attention(attention, s.form, false, launches * number(s.refresh_layers), out);
  add_attention(attention, s.form, true, launches * number(s.reuse_layers), out);
}

// In launches of so many requests each: as many of them as there are requests for, the last one
// taken as a part of such a launch.
void add_together(const StepShape& s, double growth, StepWork& out) {
  if (s.together < 1 || s.together >= s.requests) {
    add_alike(s, growth, out);
    return;
  }
  StepShape some = s;
  some.requests = s.together;
  const std::size_t first = out.count;
  add_alike(some, growth, out);
  for (std::size_t i = first; i < out.count; ++i) {
    out.work[i].launches *= number(s.requests) / number(s.together);
  }
}

// A ragged launch over requests of several contexts takes the mean of what it would take of each
// context alone, and never fewer steps than its longest request by itself.
void add_attention_layers(const StepShape& s, double growth, StepWork& out) {
  StepShape alike = s;
  alike.contexts = {};
  if (s.contexts.empty()) {
    add_together(alike, growth, out);
    return;
  }
  VERSIEVE_ASSERT(std::ssize(s.contexts) == s.requests, "each request has its context");
  const std::size_t first = out.count;
  for (std::size_t i = 0; i < s.contexts.size(); ++i) {
    StepWork one;
    alike.context_len = s.contexts[i];
    add_together(alike, growth, one);
    mix(one, number(static_cast<std::int64_t>(i)), first, out);
  }
  alike.context_len = *std::max_element(s.contexts.begin(), s.contexts.end());
  alike.requests = 1;
  StepWork longest;
  add_alike(alike, growth, longest);
  for (std::size_t i = 0; i < longest.count; ++i) {
    double& steps = out.work[place_of(longest, i, first, out)].steps;
    steps = std::max(steps, longest.work[i].steps);
  }
}

// The joint projection of `inputs` features and what takes its rows apart, and pools.
void add_projection(const Pass& p, std::int64_t inputs, const JointRow& row, StepWork& out) {
  add_linear(p, inputs, row.width(), LinearOutput::kPlain, out);
  add_rope_append(p, row, out);
}

// From the output projection to the end of the MLP; the norm after each is folded into both sides.
// `captures` of the streams that leave it are kept.
void add_output_and_mlp(const Pass& p, std::int64_t q_width, std::int64_t hidden,
                        std::int64_t intermediate, StepWork& out, double captures = 0.0) {
  add_linear(p, q_width, hidden, LinearOutput::kWeighted, out);
  add_linear(p, hidden, intermediate, LinearOutput::kSwiglu, out);
  add_linear(p, intermediate, hidden, LinearOutput::kWeighted, out, captures);
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
  const bool keeps = s.drafts && s.tree.speculates();
  for (const std::int64_t* layer = first; keeps && layer != first + 3; ++layer) {
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
  add_attention_layers(s, growth, out);
  add_output_and_mlp(layer, t.q_width(), t.hidden, t.intermediate, out, captures_of(s).written);
}

void add_target(const StepShape& s, double growth, StepWork& out) {
  const LlmShape& t = s.target;
  const Pass layer{.rows = step_rows(s),
                   .times = number(t.layers),
                   .element_bytes = s.element_bytes,
                   .as_cut = s.together > 0};
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
  add_linear(once, t.hidden, t.vocab, LinearOutput::kPlain, out);
}

bool draws_chain(const StepShape& s) {
  return versieve::draws_chain(s.tree, s.sampling, s.draft.vocab < s.target.vocab);
}

// Sizes of the draft's launches: the newest tokens' entries, then one row read out, then levels.
struct DraftRun {
  double entries = 1.0;
  double levels = 1.0;      // the first reads out one row
  double level_rows = 1.0;  // of the others
};

// Run by the batched engine (engine/run/batch), also one request.
bool is_batched(const StepShape& s) {
  return s.requests > 1 || s.together > 0;
}

// A batch's trees are grown where the draft runs, to the last level, but where chains are drawn
// from the draft's own law (engine/run/batch/tree_levels.cpp).
bool grows_by_levels(const StepShape& s) {
  return is_batched(s) && !draws_chain(s);
}

DraftRun draft_run(const StepShape& s) {
  const double levels = number(s.tree.levels());
  if (s.recorded) {
    return {.entries = levels + 1.0, .levels = levels, .level_rows = number(s.tree.width)};
  }
  if (grows_by_levels(s)) {
    return {.entries = committed_tokens(s), .levels = levels, .level_rows = number(s.tree.width)};
  }
  const DraftPasses grown = draft_passes(s.tree);
  return {.entries = committed_tokens(s),
          .levels = grown.passes,
          .level_rows = (grown.rows * grown.passes - 1.0) / at_least_one(grown.passes - 1.0)};
}

// The `k` best tokens of each row, by the noise that draft and target share where they do.
void add_best(const StepShape& s, const Pass& pass, std::int64_t vocab, std::int64_t k, Phase phase,
              StepWork& out) {
  if (s.sampling == SamplingAlgorithm::kCoupled) {
    add_gumbel_top(pass, vocab, k, phase, out);
  } else {
    add_top_logits(pass, vocab, k, phase, out);
  }
}

// A draw from the draft's own law, whose logits are kept for the test, each in the place of the
// target's token.
void add_draw(const StepShape& s, const Pass& pass, StepWork& out) {
  const std::int64_t vocab = s.draft.vocab;
  Pass row = pass;
  row.rows = number(s.requests) * (vocab < s.target.vocab ? number(vocab) : 1.0);
  add_copy(row, 1.0, vocab < s.target.vocab ? 1 : vocab, TrafficTerm::kDraft, out);
  const std::size_t first = out.count;
  add_step_sampling({}, vocab, 1, s.element_bytes, out);
  for (std::size_t i = first; i < out.count; ++i) {
    out.work[i].phase = Phase::kDraft;
    out.work[i].launches *= pass.times;
  }
  widen_from(first, number(s.requests), true, out);
}

// The best token of each row of the tree, by shared noise where draws share it: of many requests in
// one launch that keeps no perturbed rows (kernels/samplers_together.h).
void add_best_of_nodes(const StepShape& s, StepWork& out) {
  const Pass once{.rows = step_rows(s), .element_bytes = s.element_bytes};
  if (s.requests > 1 && s.sampling == SamplingAlgorithm::kCoupled) {
    add_gumbel_draw(once, s.target.vocab, Phase::kAcceptance, out);
  } else {
    add_best(s, once, s.target.vocab, 1, Phase::kAcceptance, out);
  }
}

// What the target says of the tree: its best tokens, or the test of speculative sampling.
void add_acceptance(const StepShape& s, StepWork& out) {
  const bool tests = s.sampling == SamplingAlgorithm::kBaseline ||
                     s.sampling == SamplingAlgorithm::kExact ||
                     s.sampling == SamplingAlgorithm::kSigmoid;
  if (!tests) {
    add_best_of_nodes(s, out);
    return;
  }
  const std::int64_t width = draws_chain(s) ? 0 : std::max<std::int64_t>(1, s.tree.width);
  const std::size_t first = out.count;
  const SamplingCase sampler{.algorithm = s.sampling, .width = width};
  const bool together = s.requests > 1 && s.sampling != SamplingAlgorithm::kBaseline;
  if (together) {  // a chain's positions do not vote there
    add_sampling(sampler, s.target.vocab, s.num_queries, s.element_bytes, false, out);
  } else {
    add_step_sampling(sampler, s.target.vocab, s.num_queries, s.element_bytes, out);
  }
  widen_from(first, number(s.requests), together, out);  // else a launch a request
}

// Attention over `nodes` draft nodes and the window, then the rest of the layer and the head.
void add_draft_layer(const StepShape& s, const Pass& pass, double nodes, bool joint,
                     StepWork& out) {
  const DraftShape& d = s.draft;
  add_draft_attention(s, pass, nodes, joint, out);
  add_output_and_mlp(pass, d.num_heads * d.head_dim, d.hidden, d.intermediate, out);
  add_linear(pass, d.hidden, d.vocab, LinearOutput::kPlain, out);
  if (draws_chain(s)) {
    add_draw(s, pass, out);
  } else {
    add_best(s, pass, d.vocab, std::min(s.tree.width, d.vocab), Phase::kDraft, out);
  }
}

// Queries, keys and values of the newest tokens, then the newest one's output.
void add_entries(const StepShape& s, const Pass& entries, const Pass& one, StepWork& out) {
  const DraftShape& d = s.draft;
  add_copy(entries, 1.0, 3 * d.hidden, TrafficTerm::kDraft, out);
  add_linear(entries, 3 * d.hidden, d.hidden, LinearOutput::kPlain, out);
  add_embed(entries, 2, d.hidden, false, d.head_dim, out);
  add_projection(entries, 2 * d.hidden,
                 {.heads = d.num_heads,
                  .kv_heads = d.num_kv_heads,
                  .head_dim = d.head_dim,
                  .keeps_cache_rows = s.recorded},
                 out);
  add_draft_layer(s, one, 1.0, false, out);
}

// Of a recorded greedy step of one request, in bf16, where the engine does so.
bool drafts_at_once(const StepShape& s) {
  return s.recorded && s.requests == 1 && s.element_bytes == 2 &&
         s.sampling == SamplingAlgorithm::kGreedy &&
         drafts_in_one_launch(s.draft, s.target.vocab, s.tree);
}

void add_draft(const StepShape& s, StepWork& out) {
  if (drafts_at_once(s)) {
    add_draft_levels(s, out);
    return;
  }
  const DraftShape& d = s.draft;
  const DraftRun run = draft_run(s);
  const double requests = number(s.requests);
  const Pass one{.rows = requests,
                 .matrices = Phase::kDraft,
                 .other = Phase::kDraft,
                 .weights = TrafficTerm::kDraft,
                 .element_bytes = s.element_bytes,
                 .as_cut = s.together > 0};
  Pass entries = one;
  entries.rows = requests * run.entries;
  add_entries(s, entries, one, out);
  Pass level = one;
  level.rows = requests * run.level_rows;
  level.times = run.levels - 1.0;
  add_embed(level, 2, d.hidden, true, d.head_dim, out);  // features of earlier outputs, kept
  const JointRow row{.heads = d.num_heads, .kv_heads = d.num_kv_heads, .head_dim = d.head_dim};
  add_linear(level, 2 * d.hidden, row.width(), LinearOutput::kPlain, out);
  add_draft_layer(s, level, 1.0 + 0.5 * run.levels * run.level_rows, true, out);
  if (s.recorded) {
    const std::size_t first = out.count;
    add_grow_tree(s, 1.0, 1, out);
    add_grow_tree(s, level.times, s.tree.width, out);
    widen_from(first, requests, true, out);
  } else if (grows_by_levels(s)) {
    const std::size_t first = out.count;
    add_grow_tree(s, 1.0, 1, out);
    add_grow_tree(s, level.times, s.tree.width, out);
    widen_from(first, requests, true, out);
    out.host_trips += 1.0;  // for all trees
  } else {
    out.host_trips += run.levels;
  }
}

// Beside those of the draft: verification, acceptance and commit each end in one. A batch waits for
// the tokens alone, as its commit is enqueued with the next step.
double host_waits(const StepShape& s) {
  if (s.recorded) {
    return 0.0;
  }
  return is_batched(s) ? 1.0 : 3.0;
}

// Accepted rows of all layers into the caches as the host lists them, kind by kind of row;
// compressed rows where the path completes a block.
void add_commit(const StepShape& s, StepWork& out) {
  const LlmShape& t = s.target;
  const double accepted = number(s.requests) * committed_tokens(s);
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
  completed.rows = number(s.requests * t.layers);
  completed.times = std::min(1.0, committed_tokens(s) / number(t.nsa.cmp_stride));
  add_copy(completed, 2.0, t.kv_width(), TrafficTerm::kKvAppend, out);
}

// Kinds that are launched as programmatic dependents (kernels/common/dependent_launch.cuh).
constexpr bool is_dependent(LaunchKind kind) {
  return kind == LaunchKind::kLinear || kind == LaunchKind::kRmsNorm || kind == LaunchKind::kRope ||
         kind == LaunchKind::kTopLogits;
}

}  // namespace

void add_attention(const traffic::NsaVerifyShape& shape, NsaForm form, bool reuse, double layers,
                   StepWork& out) {
  traffic::NsaVerifyShape s = shape;
  s.routing = !reuse;
  const std::size_t first = out.count;
  if (form == NsaForm::kVanilla) {
    add_nsa_vanilla(s, reuse, layers, out);
    widen_from(first, number(s.requests), true, out);
  } else {
    add_nsa_fused(s, reuse, layers, out);
  }
  for (std::size_t i = first; i < out.count; ++i) {
    out.work[i].layer = reuse ? LayerKind::kReuse : LayerKind::kRefresh;
  }
}

void add_step(const StepShape& s, double growth, StepWork& out) {
  VERSIEVE_ASSERT(s.refresh_layers + s.reuse_layers == s.target.layers, "one letter a layer");
  VERSIEVE_ASSERT(s.requests >= 1, "a step is of some requests");
  VERSIEVE_ASSERT(
      !s.one_launch || (s.requests == 1 && s.num_queries == 1 && s.form == NsaForm::kFused &&
                        s.target.attention == AttentionKind::kNsa),
      "one launch runs the layers of one token");
  if (s.drafts && s.tree.speculates()) {
    add_draft(s, out);
  }
  const auto of_requests = [&](auto add) {
    const std::size_t first = out.count;
    add(s, out);
    widen_from(first, number(s.requests), true, out);
  };
  if (s.recorded) {
    of_requests(add_finish_tree);
  }
  add_target(s, growth, out);
  add_acceptance(s, out);
  if (s.recorded) {
    of_requests(add_accept_tree);
    of_requests(add_commit_path);
  } else {
    add_commit(s, out);
  }
  out.host_trips += host_waits(s);
  for (std::size_t i = 0; i < out.count; ++i) {
    out.work[i].dependent = out.work[i].dependent || is_dependent(out.work[i].kind);
  }
}

}  // namespace versieve
