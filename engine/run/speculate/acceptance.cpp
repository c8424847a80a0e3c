#include "engine/run/speculate/acceptance.h"

#include <algorithm>

#include "engine/run/model/uniform.h"
#include "engine/run/speculate/kernel_variants.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// The child of `node` that proposes `token`, or -1.
std::int32_t child_with(const DraftTree& tree, std::int32_t node, std::int32_t token) {
  for (std::size_t i = static_cast<std::size_t>(node) + 1; i < tree.parent.size(); ++i) {
    if (tree.parent[i] == node && tree.token[i] == token) {
      return static_cast<std::int32_t>(i);
    }
  }
  return -1;
}

}  // namespace

Acceptance follow(const DraftTree& tree, std::span<const std::int32_t> best) {
  Acceptance result;
  for (std::int32_t node = 0; node >= 0; node = child_with(tree, node, result.next_token)) {
    result.path.push_back(node);
    result.next_token = best[static_cast<std::size_t>(node)];
  }
  return result;
}

std::vector<std::int32_t> path_of_yield(const DraftTree& tree, std::int64_t yield) {
  const std::vector<std::int32_t>& depth = tree.depth;
  const std::int32_t wanted = static_cast<std::int32_t>(
      std::min<std::int64_t>(yield - 1, *std::max_element(depth.begin(), depth.end())));
  const std::ptrdiff_t node = std::find(depth.begin(), depth.end(), wanted) - depth.begin();
  return path_to(tree, static_cast<std::int32_t>(node));
}

template <class T>
Acceptance Acceptor<T>::accept(const Verified& verified, const AcceptanceOptions& options) {
  if (options.temperature == 0.0 || options.sampling == SamplingAlgorithm::kCoupled) {
    return follow_best(verified, options);
  }
  upload_uniforms(verified, options.seed);
  return verified.sampled_logits != nullptr ? sample_chain(verified, options)
                                            : sample_tree(verified, options);
}

// The best `count` tokens of each node into ints_, their log-probabilities into scores_ if gaps
// are measured; above temperature 0 of logits perturbed for the place that the token takes.
template <class T>
void Acceptor<T>::list_best(const Verified& verified, const AcceptanceOptions& options,
                            std::int64_t count) {
  const std::int64_t nodes = verified.tree.size();
  ensure_count(*ops_, ints_, nodes * count);
  ensure_count(*ops_, scores_, nodes * count);
  float* const scores = options.measures_gap ? scores_.data() : nullptr;
  if (options.temperature == 0.0) {
    ops_->top_logits({.rows = nodes,
                      .vocab = verified.vocab,
                      .k = count,
                      .logits = verified.logits,
                      .index = ints_.data(),
                      .log_probability = scores});
    return;
  }
  ensure_count(*ops_, perturbed_, nodes * verified.vocab);
  std::vector<std::int32_t> position;
  for (const std::int32_t depth : verified.tree.depth) {
    position.push_back(static_cast<std::int32_t>(verified.position + depth));
  }
  ops_->gumbel_top({.rows = nodes,
                    .vocab = verified.vocab,
                    .k = count,
                    .temperature = options.temperature,
                    .seed = options.seed,
                    .logits = verified.logits,
                    .position = staged_.upload(*ops_, position),
                    .perturbed = perturbed_.data(),
                    .index = ints_.data(),
                    .log_probability = scores});
}

template <class T>
Acceptance Acceptor<T>::follow_best(const Verified& verified, const AcceptanceOptions& options) {
  const DraftTree& tree = verified.tree;
  const std::int64_t best = options.measures_gap && verified.vocab > 1 ? 2 : 1;
  list_best(verified, options, best);
  const std::vector<std::int32_t> token = ints_.read();
  const std::vector<float> score = options.measures_gap ? scores_.read() : std::vector<float>();
  Acceptance result;
  for (std::int32_t node = 0; node >= 0; node = child_with(tree, node, result.next_token)) {
    const std::size_t row = static_cast<std::size_t>(node * best);
    result.path.push_back(node);
    result.next_token = token[row];
    result.logit_gap = best == 2 ? score[row] - score[row + 1] : 0.0F;
  }
  return result;
}

template <class T>
void Acceptor<T>::upload_uniforms(const Verified& verified, std::uint64_t seed) {
  const std::int64_t count = verified.tree.size();
  std::vector<Sum> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<Sum>(uniform_at(seed, verified.position, UniformUse::kTest, i)));
  }
  ensure_count(*ops_, uniforms_, count);
  ensure_count(*ops_, tau_, count);
  uniforms_.write(values);
}

template <class T>
Acceptance Acceptor<T>::sample_tree(const Verified& verified, const AcceptanceOptions& options) {
  const DraftTree& tree = verified.tree;
  const std::int64_t count = tree.size();
  VERSIEVE_ASSERT(count == 1 || options.sampling != SamplingAlgorithm::kSigmoid,
                  "sigmoids test chains that the draft sampled");
  ensure_count(*ops_, ints_, 2 * count + 1);
  std::vector<std::int32_t> staged = tree.parent;
  staged.insert(staged.end(), tree.token.begin(), tree.token.end());
  const std::int32_t* uploaded = staged_.upload(*ops_, staged);
  const bool separate = options.sampling == SamplingAlgorithm::kBaseline;
  ops_->tree_sample({.variant = separate ? kernels::TreeSampleVariant::kBaseline
                                         : kernels::TreeSampleVariant::kExact,
                     .samples = 1,
                     .num_nodes = count,
                     .vocab = verified.vocab,
                     .temperature = options.temperature,
                     .target_logits = verified.logits,
                     .parent = uploaded,
                     .token = uploaded + count,
                     .uniforms = uniforms_.data(),
                     .accepted = ints_.data(),
                     .tokens = ints_.data() + 1,
                     .path = ints_.data() + 1 + count,
                     .tau = tau_.data(),
                     .truncation = options.truncation});
  const std::vector<std::int32_t> out = ints_.read();
  const std::int64_t accepted = out[0];
  Acceptance result{.path = {0}, .next_token = out[static_cast<std::size_t>(1 + accepted)]};
  for (std::int64_t i = 0; i < accepted; ++i) {
    result.path.push_back(out[static_cast<std::size_t>(1 + count + i)]);
  }
  return result;
}

template <class T>
Acceptance Acceptor<T>::sample_chain(const Verified& verified, const AcceptanceOptions& options) {
  const DraftTree& tree = verified.tree;
  const std::int64_t gamma = tree.size() - 1;
  ensure_count(*ops_, ints_, gamma + 2);
  const std::int32_t* uploaded = staged_.upload(*ops_, tree.token);
  ops_->spec_sample({.variant = variant_of(options.sampling),
                     .samples = 1,
                     .gamma = gamma,
                     .vocab = verified.vocab,
                     .temperature = options.temperature,
                     .alpha = options.sigmoid.alpha,
                     .beta = options.sigmoid.beta,
                     .target_logits = verified.logits,
                     .draft_logits = verified.sampled_logits,
                     .draft_tokens = uploaded + 1,
                     .uniforms = uniforms_.data(),
                     .accepted = ints_.data(),
                     .tokens = ints_.data() + 1,
                     .tau = tau_.data(),
                     .truncation = options.truncation});
  const std::vector<std::int32_t> out = ints_.read();
  const std::int32_t accepted = out[0];
  Acceptance result{.path = {}, .next_token = out[static_cast<std::size_t>(1 + accepted)]};
  for (std::int32_t node = 0; node <= accepted; ++node) {
    result.path.push_back(node);
  }
  return result;
}

template class Acceptor<double>;
template class Acceptor<float>;
template class Acceptor<Bf16>;

}  // namespace versieve::engine
