#include "engine/run/model/dense_attention.h"

#include "kernels/ops_together.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
kernels::TreeAttentionParams<T> DenseAttention<T>::params_of(const AttentionStep<T>& step,
                                                             std::int64_t layer) const {
  const std::int64_t window = shape_.dense_layer(layer).window;
  return {.counts = step.nodes.counts,
          .num_heads = shape_.num_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .context_len = step.nodes.context_len,
          .window = window,
          .num_queries = step.nodes.count,
          .num_nodes = step.nodes.count,
          .parent = step.nodes.parent,
          .position = step.nodes.position,
          .q = step.q,
          .pages = step.cache.pages(),
          .k = step.cache.k(layer),
          .v = step.cache.v(layer),
          .k_tree = step.tree.k(layer),
          .v_tree = step.tree.v(layer),
          .out = step.out,
          .splits_chain = window == 0 && (step.options.splits_chain || step.nodes.chain),
          .dense_pass = step.options.dense_pass};
}

template <class T>
void DenseAttention<T>::attend(std::span<const AttentionStep<T>> steps, std::int64_t layer,
                               TokenSelector<T>* selector) {
  selector = selector != nullptr ? selector : selector_;
  if (steps.size() == 1) {
    attend_one(steps.front(), layer, selector);
    return;
  }
  VERSIEVE_ASSERT(selector == nullptr && capture_.weights == nullptr,
                  "tokens are chosen for one sequence");
  std::vector<kernels::TreeAttentionParams<T>> calls;
  for (const AttentionStep<T>& step : steps) {
    calls.push_back(params_of(step, layer));
  }
  kernels::tree_attention_together<T>(*ops_, calls);
}

template <class T>
void DenseAttention<T>::attend_one(const AttentionStep<T>& step, std::int64_t layer,
                                   TokenSelector<T>* selector) {
  kernels::TreeAttentionParams<T> p = params_of(step, layer);
  VERSIEVE_ASSERT(p.window == 0 || (selector == nullptr && capture_.weights == nullptr),
                  "a window leaves nothing to choose from");
  if (selector != nullptr) {
    p.selected = selector->select({.layer = layer,
                                   .num_queries = step.nodes.count,
                                   .num_kv_heads = shape_.num_kv_heads,
                                   .context_len = step.nodes.context_len,
                                   .counts = step.nodes.counts,
                                   .q = step.q,
                                   .k = step.cache.k(layer)});
    p.cache_term =
        p.selected.token != nullptr ? TrafficTerm::kSelectedBlocks : TrafficTerm::kWindow;
  }
  if (capture_.weights != nullptr && layer >= capture_.first_layer) {
    p.weights = capture_.weights + layer * capture_.layer_stride;
  }
  if (p.weights != nullptr && p.selected.token != nullptr) {  // of all tokens, chosen or not
    ops_->attention_weights(kernels::weights_of(p));
    p.weights = nullptr;
  }
  ops_->tree_attention(p);
}

template class DenseAttention<double>;
template class DenseAttention<float>;
template class DenseAttention<Bf16>;

}  // namespace versieve::engine
