#include "engine/run/speculate/draft_source.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/run/model/uniform.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
DraftSource<T>::DraftSource(kernels::Ops<T>& ops, std::unique_ptr<Drafter<T>> drafter,
                            const DraftSourceOptions& options)
    : ops_(&ops), draft_(std::move(drafter)), options_(options), length_(options.choice.levels()) {
  const std::int64_t width = options_.choice.width;
  VERSIEVE_ASSERT(width >= 1 && options_.choice.speculates(), "a draft tree has children");
  VERSIEVE_ASSERT(width == 1 || !options_.adapts_length, "chains have a length");
  const bool own_vocabulary = !draft_->target_tokens().empty();
  const bool draws = options_.temperature > 0.0;
  coupled_ = draws && options_.sampling == SamplingAlgorithm::kCoupled;
  sampled_ = draws && draws_chain(options_.choice, options_.sampling, own_vocabulary);
  top_index_ = kernels::OpsBuffer<T, std::int32_t>(ops, width * width);
  top_score_ = kernels::OpsBuffer<T, float>(ops, width * width);
  if (coupled_) {
    perturbed_ = kernels::OpsBuffer<T, kernels::SumOf<T>>(ops, width * draft_->vocab());
  }
  if (own_vocabulary && (coupled_ || sampled_)) {
    target_token_ = kernels::OpsBuffer<T, std::int32_t>(ops, draft_->target_tokens());
  }
  if (sampled_) {
    chain_vocab_ = own_vocabulary ? options_.target_vocab : draft_->vocab();
    VERSIEVE_ASSERT(chain_vocab_ >= draft_->vocab(), "a draft's tokens are among the target's");
    const std::int64_t logits = options_.choice.depth * chain_vocab_;
    chain_logits_ = kernels::OpsBuffer<T>(
        ops, std::vector<T>(static_cast<std::size_t>(logits), never_proposed<T>()));
    uniform_ = kernels::OpsBuffer<T, kernels::SumOf<T>>(ops, 1);
    tau_ = kernels::OpsBuffer<T, kernels::SumOf<T>>(ops, 1);
    drawn_ = kernels::OpsBuffer<T, std::int32_t>(ops, 2);
  }
}

template <class T>
void DraftSource<T>::observe(const Observation<T>& observation) {
  pending_ = observation;
  if (options_.adapts_length && proposed_ > 0) {
    length_.count_accepted(static_cast<std::int64_t>(observation.next_token.size()) - 1);
  }
  proposed_ = 0;
}

template <class T>
DraftTree DraftSource<T>::propose(std::int64_t position, std::int32_t token) {
  drafted_ = drafts_at(options_.draft_positions, position);
  if (!drafted_) {
    return NoDraft<T>().propose(position, token);
  }
  draft_->begin(position, pending_);
  position_ = position;
  DraftTree tree = sampled_ ? sample_chain(token) : grow(token);
  proposed_ = tree.size() - 1;
  return tree;
}

template <class T>
void DraftSource<T>::run_nodes(const TreeGrowth& growth, const std::vector<std::int32_t>& nodes) {
  const DraftTree& tree = growth.candidates();
  typename Drafter<T>::Nodes run;
  for (const std::int32_t node : nodes) {
    const std::size_t at = static_cast<std::size_t>(node);
    run.token.push_back(tree.token[at]);
    run.position.push_back(static_cast<std::int32_t>(position_ + tree.depth[at]));
    run.parent.push_back(slots_[static_cast<std::size_t>(tree.parent[at])]);
  }
  draft_->step(run);
}

// The best `width` tokens of each node, whose logits are the draft's newest rows.
template <class T>
void DraftSource<T>::list_children(const TreeGrowth& growth, const std::vector<std::int32_t>& nodes,
                                   std::int64_t width) {
  const std::int64_t rows = static_cast<std::int64_t>(nodes.size());
  if (!coupled_) {
    ops_->top_logits({.rows = rows,
                      .vocab = draft_->vocab(),
                      .k = width,
                      .logits = draft_->logits(),
                      .index = top_index_.data(),
                      .log_probability = top_score_.data()});
    return;
  }
  std::vector<std::int32_t> position;
  for (const std::int32_t node : nodes) {
    const std::int32_t depth = growth.candidates().depth[static_cast<std::size_t>(node)];
    position.push_back(static_cast<std::int32_t>(position_ + depth));
  }
  ops_->gumbel_top({.rows = rows,
                    .vocab = draft_->vocab(),
                    .k = width,
                    .temperature = options_.temperature,
                    .seed = options_.seed,
                    .logits = draft_->logits(),
                    .position = positions_.upload(*ops_, position),
                    .token = target_token_.data(),
                    .perturbed = perturbed_.data(),
                    .index = top_index_.data(),
                    .log_probability = top_score_.data()});
}

template <class T>
void DraftSource<T>::expand(TreeGrowth& growth, const std::vector<std::int32_t>& nodes) {
  const std::int64_t rows = static_cast<std::int64_t>(nodes.size());
  const std::int64_t width = std::min(options_.choice.width, draft_->vocab());
  list_children(growth, nodes, width);
  std::vector<std::int32_t> index(static_cast<std::size_t>(rows * width));
  std::vector<float> score(index.size());
  ops_->download(index.data(), top_index_.data(), index.size() * sizeof(std::int32_t));
  ops_->download(score.data(), top_score_.data(), score.size() * sizeof(float));
  for (std::int64_t i = 0; i < rows * width; ++i) {
    const std::size_t at = static_cast<std::size_t>(i);
    const float by_rank = -static_cast<float>(i % width + 1) * std::log(2.0F);
    growth.add_child(nodes[static_cast<std::size_t>(i / width)], draft_->target_token(index[at]),
                     options_.scores_by_rank ? by_rank : score[at]);
  }
}

template <class T>
DraftTree DraftSource<T>::grow(std::int32_t token) {
  DraftChoice choice = options_.choice;
  if (options_.adapts_length) {
    choice.depth = length_.length();
    choice.nodes = choice.depth + 1;
  }
  TreeGrowth growth(choice, token);
  std::int32_t next_slot = 0;
  slots_.assign(1, -1);
  for (std::vector<std::int32_t> nodes = growth.frontier(); !nodes.empty();
       nodes = growth.frontier()) {
    if (nodes[0] != 0) {
      slots_.resize(static_cast<std::size_t>(growth.candidates().size()), -1);
      run_nodes(growth, nodes);
      for (const std::int32_t node : nodes) {
        slots_[static_cast<std::size_t>(node)] = next_slot++;
      }
    }
    expand(growth, nodes);
  }
  const DraftTree tree = growth.finish();
  return reordered(tree, traversal_order(tree, options_.order));
}

// A draw from softmax(newest logits / temperature): the sampler of a chain without drafted tokens.
template <class T>
std::int32_t DraftSource<T>::sample_token(std::int64_t index) {
  const double u = uniform_at(options_.seed, position_, UniformUse::kDraft, index);
  uniform_.write({static_cast<kernels::SumOf<T>>(u)});
  ops_->spec_sample({.samples = 1,
                     .gamma = 0,
                     .vocab = draft_->vocab(),
                     .temperature = options_.temperature,
                     .target_logits = draft_->logits(),
                     .draft_logits = draft_->logits(),
                     .draft_tokens = drawn_.data(),
                     .uniforms = uniform_.data(),
                     .accepted = drawn_.data(),
                     .tokens = drawn_.data() + 1,
                     .tau = tau_.data(),
                     .truncation = options_.truncation});
  return drawn_.read()[1];
}

// The draft's newest row, each logit in the place of the target's token.
template <class T>
void DraftSource<T>::keep_chain_logits(std::int64_t index) {
  T* const row = chain_logits_.data() + index * chain_vocab_;
  const bool scatters = target_token_.count() > 0;
  ops_->copy_rows({.rows = scatters ? draft_->vocab() : 1,
                   .width = scatters ? 1 : draft_->vocab(),
                   .dst_row = scatters ? target_token_.data() : nullptr,
                   .src = draft_->logits(),
                   .dst = row,
                   .term = TrafficTerm::kDraft});
}

template <class T>
DraftTree DraftSource<T>::sample_chain(std::int32_t token) {
  const std::int64_t length = options_.adapts_length ? length_.length() : options_.choice.levels();
  DraftTree tree{.parent = {-1}, .depth = {0}, .token = {token}, .log_probability = {0.0F}};
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int32_t node = static_cast<std::int32_t>(i);
    if (i > 0) {
      draft_->step({.token = {tree.token.back()},
                    .position = {static_cast<std::int32_t>(position_ + i)},
                    .parent = {node - 2}});
    }
    keep_chain_logits(i);
    tree.token.push_back(draft_->target_token(sample_token(i)));
    tree.parent.push_back(node);
    tree.depth.push_back(node + 1);
    tree.log_probability.push_back(0.0F);
  }
  return tree;
}

template class DraftSource<double>;
template class DraftSource<float>;
template class DraftSource<Bf16>;

}  // namespace versieve::engine
