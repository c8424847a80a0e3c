#include "engine/run/model/dense_attention.h"

#include <utility>

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
void DenseAttention<T>::choose(kernels::TreeAttentionParams<T>& p,
                               const kernels::SelectedTokens& selected) {
  p.selected = selected;
  if (selected.token != nullptr) {
    p.cache_term = TrafficTerm::kSelectedBlocks;
  }
}

template <class T>
LayerQueries<T> DenseAttention<T>::queries_of(const AttentionStep<T>& step,
                                              std::int64_t layer) const {
  return {.layer = layer,
          .num_queries = step.nodes.count,
          .num_kv_heads = shape_.num_kv_heads,
          .context_len = step.nodes.context_len,
          .counts = step.nodes.counts,
          .q = step.q,
          .k = step.cache.k(layer)};
}

template <class T>
kernels::StepShape DenseAttention<T>::prepare(std::span<const AttentionStep<T>> steps) {
  VERSIEVE_ASSERT(selector_ == nullptr && capture_.weights == nullptr,
                  "tokens are chosen for one sequence");
  together_.calls.clear();
  together_.call_layers.clear();
  if (steps.empty()) {
    return {};
  }
  const KvRows<T>& rows = steps.front().cache.rows();
  together_ = {.layers = shape_.layers,
               .cache_rows = rows.layer_rows,
               .tree_rows = steps.front().tree.all().rows(),
               .k = rows.k,
               .v = rows.v,
               .windows = {},
               .calls = std::move(together_.calls),
               .call_layers = std::move(together_.call_layers)};
  for (std::int64_t layer = 0; shape_.has_windows() && layer < shape_.layers; ++layer) {
    together_.windows.push_back(shape_.dense_layer(layer).window);
  }
  for (const AttentionStep<T>& step : steps) {
    kernels::TreeAttentionParams<T> call = params_of(step, 0);
    call.window = 0;
    call.splits_chain = step.options.splits_chain || step.nodes.chain;
    choose(call, step.selected);
    call.weights = step.weights;
    VERSIEVE_ASSERT(call.weights == nullptr || call.selected.token == nullptr,
                    "weights are those of all tokens");
    VERSIEVE_ASSERT(together_.windows.empty() ||
                        (call.weights == nullptr && call.selected.token == nullptr),
                    "a window leaves nothing to choose from");
    together_.calls.push_back(call);
    together_.call_layers.push_back(step.layers);
  }
  return kernels::prepare_dense_step<T>(*ops_, together_);
}

template <class T>
void DenseAttention<T>::attend(const AttentionStep<T>& step, std::int64_t layer,
                               TokenSelector<T>* selector, const AttentionCapture<T>& capture) {
  kernels::TreeAttentionParams<T> p = params_of(step, layer);
  VERSIEVE_ASSERT(p.window == 0 || (selector == nullptr && capture.weights == nullptr),
                  "a window leaves nothing to choose from");
  if (selector != nullptr) {
    choose(p, selector->select(queries_of(step, layer)));
  }
  if (capture.weights != nullptr && layer >= capture.first_layer) {
    p.weights = capture.weights + layer * capture.layer_stride;
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
