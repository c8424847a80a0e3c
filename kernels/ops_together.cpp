#include "kernels/ops_together.h"

namespace versieve::kernels {

std::int64_t refresh_layer(std::string_view schedule, std::int64_t layer) {
  while (!schedule.empty() && schedule[static_cast<std::size_t>(layer)] == 'R') {
    --layer;
  }
  return layer;
}

template <class T>
NsaVerifyParams<T> call_in_layer(const NsaStepParams<T>& step, std::size_t call,
                                 std::int64_t layer) {
  NsaVerifyParams<T> p = step.calls[call].first;
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  const auto shift = [&](const T*& rows, std::int64_t between) {
    rows += rows == nullptr ? 0 : layer * between * width;
  };
  shift(p.k, step.cache_rows);
  shift(p.v, step.cache_rows);
  shift(p.k_cmp, step.compressed_rows);
  shift(p.v_cmp, step.compressed_rows);
  for (const T** rows : {&p.k_tree, &p.v_tree, &p.k_cmp_tree, &p.v_cmp_tree}) {
    shift(*rows, step.tree_rows);
  }
  const std::int64_t refresh = refresh_layer(step.calls[call].schedule, layer);
  p.indices_in = refresh == layer ? nullptr : p.indices + refresh * step.indices_stride;
  p.indices += layer * step.indices_stride;
  p.older_lists = layer > 0 && !step.keeps_rows_first;  // a routing launch lies between
  p.older_blocks = layer > refresh + 1;                 // another reuse layer does
  return p;
}

template <class T>
TreeAttentionParams<T> call_of_kind(const DenseStepParams<T>& step, std::size_t call,
                                    std::int64_t layer) {
  TreeAttentionParams<T> p = step.calls[call];
  if (p.selected.token != nullptr && !step.reads_list(call, layer)) {
    p.selected = {};
    p.cache_term = TreeAttentionParams<T>{}.cache_term;
  }
  if (!step.keeps_weights(call, layer)) {
    p.weights = nullptr;
  }
  return p;
}

template <class T>
TreeAttentionParams<T> call_in_layer(const DenseStepParams<T>& step, std::size_t call,
                                     std::int64_t layer) {
  TreeAttentionParams<T> p = call_of_kind(step, call, layer);
  const CallLayers own = step.layers_of(call);
  p.k += layer * step.cache_rows * step.width();
  p.v += layer * step.cache_rows * step.width();
  p.k_tree += layer * step.tree_rows * step.width();
  p.v_tree += layer * step.tree_rows * step.width();
  p.window = step.window(layer);
  p.splits_chain = p.splits_chain && p.window == 0;
  if (p.selected.token != nullptr) {
    p.selected.token += own.list_of(layer) * own.list_stride;
    if (p.selected.known_count != nullptr && !own.list_of_layer.empty()) {
      p.selected.known_count += own.list_of(layer);
    }
  }
  if (p.weights != nullptr) {
    p.weights += layer * own.weights_stride;
  }
  return p;
}

template NsaVerifyParams<double> call_in_layer(const NsaStepParams<double>&, std::size_t,
                                               std::int64_t);
template NsaVerifyParams<float> call_in_layer(const NsaStepParams<float>&, std::size_t,
                                              std::int64_t);
template NsaVerifyParams<Bf16> call_in_layer(const NsaStepParams<Bf16>&, std::size_t, std::int64_t);
template TreeAttentionParams<double> call_of_kind(const DenseStepParams<double>&, std::size_t,
                                                  std::int64_t);
template TreeAttentionParams<float> call_of_kind(const DenseStepParams<float>&, std::size_t,
                                                 std::int64_t);
template TreeAttentionParams<Bf16> call_of_kind(const DenseStepParams<Bf16>&, std::size_t,
                                                std::int64_t);
template TreeAttentionParams<double> call_in_layer(const DenseStepParams<double>&, std::size_t,
                                                   std::int64_t);
template TreeAttentionParams<float> call_in_layer(const DenseStepParams<float>&, std::size_t,
                                                  std::int64_t);
template TreeAttentionParams<Bf16> call_in_layer(const DenseStepParams<Bf16>&, std::size_t,
                                                 std::int64_t);

}  // namespace versieve::kernels
