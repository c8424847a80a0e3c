#include "engine/run/speculate/acceptance.h"

#include <algorithm>

#include "engine/run/model/packed_ints.h"
#include "engine/run/speculate/sampler_call.h"

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
  return sample(verified, options);
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

// One sampler's call, and the path that it says.
template <class T>
Acceptance Acceptor<T>::sample(const Verified& verified, const AcceptanceOptions& options) {
  const DraftTree& tree = verified.tree;
  const std::int64_t count = tree.size();
  ensure_count(*ops_, ints_, answer_size(count));
  ensure_count(*ops_, tau_, count);
  PackedInts packed;
  const std::int64_t uniforms = packed.add(test_uniforms<T>(verified, options.seed));
  const std::int64_t parents = packed.add(tree.parent);
  const std::int64_t tokens = packed.add(tree.token);
  const std::int32_t* const uploaded = staged_.upload(*ops_, packed.ints());
  const SamplerLists<T> lists{.parent = uploaded + parents,
                              .token = uploaded + tokens,
                              .uniforms = PackedInts::at<Sum>(uploaded, uniforms),
                              .answer = ints_.data(),
                              .tau = tau_.data()};
  if (verified.sampled_logits != nullptr) {
    ops_->spec_sample(chain_call<T>(verified, options, lists));
    return chain_answer(ints_.read());
  }
  ops_->tree_sample(tree_call<T>(verified, options, lists));
  return tree_answer(ints_.read(), count);
}

template class Acceptor<double>;
template class Acceptor<float>;
template class Acceptor<Bf16>;

}  // namespace versieve::engine
