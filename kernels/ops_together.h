// An op's calls for several sequences, of which none reads what another writes: one launch, or few,
// where the device has such a launch, else one call after the other. Each has the bits that it has
// alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/draft_tree/together.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// Of a context in a step that may be recorded, the next multiple: cuts, grids and the recording
// hold as long as the context stays below it.
inline constexpr std::int64_t kBoundTokens = 1024;
constexpr std::int64_t bound_of_context(std::int64_t context_len) {
  return (context_len + kBoundTokens) / kBoundTokens * kBoundTokens;
}

// A sequence's calls of nsa_verify in a step, one a layer.
template <class T>
struct NsaStepCall {
  NsaVerifyParams<T> first;   // of layer 0
  std::string_view schedule;  // a letter a layer, the first F; empty: all F. Outlives the step.
};

// Those of several sequences, whose rows lie in buffers that they share: [layers, rows, G, d] of
// committed tokens and compressed ones, and of the tree's. All have one geometry.
template <class T>
struct NsaStepParams {
  std::int64_t layers = 0;
  std::int64_t cache_rows = 0, compressed_rows = 0, tree_rows = 0;  // between two layers
  const T *k = nullptr, *v = nullptr, *k_cmp = nullptr, *v_cmp = nullptr;
  const T *k_tree = nullptr, *v_tree = nullptr, *k_cmp_tree = nullptr, *v_cmp_tree = nullptr;
  std::int64_t indices_stride = 0;  // elements of `indices` between two layers
  // Each layer's launches may follow at once those that write rows of its caches; else the caches
  // are older than the layer before.
  bool keeps_rows_first = false;
  std::vector<NsaStepCall<T>> calls;
};

// The newest F layer up to that one, itself where it selects.
std::int64_t refresh_layer(std::string_view schedule, std::int64_t layer);
// That call in that layer.
template <class T>
NsaVerifyParams<T> call_in_layer(const NsaStepParams<T>& step, std::size_t call,
                                 std::int64_t layer);

// What launches of a step are made of beside what they read in device memory: steps of one shape
// can take one recording. Empty: the step's sizes are in its launches.
using StepShape = std::vector<std::int64_t>;

// Whether these ops give any step a shape.
template <class T>
bool has_step_shapes(Ops<T>& ops);

// Once a step, before its first layer and outside of recordings: works out what all layers share.
// Never waits for the device.
template <class T>
StepShape prepare_nsa_step(Ops<T>& ops, const NsaStepParams<T>& step);
// That layer's calls. REQUIRES: the step was prepared, and no other since.
template <class T>
void nsa_verify_layer(Ops<T>& ops, const NsaStepParams<T>& step, std::int64_t layer);

// What differs between the layers of a call of dense attention beside the caches' rows. Its params
// name the first list of selected tokens and the weights of layer 0.
struct CallLayers {
  std::int64_t list_stride = 0;  // elements between two lists
  // Or empty: layer i reads list i. Not empty: [layers], the list that each reads, -1: all tokens;
  // the counts of the lists lie side by side. Outlives the step.
  std::span<const std::int32_t> list_of_layer = {};
  std::int64_t weights_stride = 0;  // elements between two layers' weights
  std::int64_t first_weights = 0;   // layers before it keep none

  std::int64_t list_of(std::int64_t layer) const {
    return list_of_layer.empty() ? layer : list_of_layer[static_cast<std::size_t>(layer)];
  }
};

// Dense attention of several sequences in all layers, whose rows lie in buffers that they share.
template <class T>
struct DenseStepParams {
  std::int64_t layers = 0;
  std::int64_t cache_rows = 0, tree_rows = 0;  // between two layers
  const T *k = nullptr, *v = nullptr;          // [layers, cache_rows, G, d]
  std::vector<std::int64_t> windows;           // [layers], as TreeAttentionParams; empty: none
  std::vector<TreeAttentionParams<T>> calls;   // of layer 0, had it no window
  std::vector<CallLayers> call_layers = {};    // [calls], or empty: nothing else differs

  std::int64_t window(std::int64_t layer) const {
    return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)];
  }
  CallLayers layers_of(std::size_t call) const {
    return call_layers.empty() ? CallLayers{} : call_layers[call];
  }
  // Whether that call reads a list in that layer, and keeps the newest query's weights.
  bool reads_list(std::size_t call, std::int64_t layer) const {
    return calls[call].selected.token != nullptr && layers_of(call).list_of(layer) >= 0;
  }
  bool keeps_weights(std::size_t call, std::int64_t layer) const {
    return calls[call].weights != nullptr && layer >= layers_of(call).first_weights;
  }
  std::int64_t width() const {  // G d
    return calls.front().num_kv_heads * calls.front().head_dim;
  }
};

// That call as that layer has it, its pointers those of layer 0 and of the first list.
template <class T>
TreeAttentionParams<T> call_of_kind(const DenseStepParams<T>& step, std::size_t call,
                                    std::int64_t layer);

// That call in that layer.
template <class T>
TreeAttentionParams<T> call_in_layer(const DenseStepParams<T>& step, std::size_t call,
                                     std::int64_t layer);
// As prepare_nsa_step and nsa_verify_layer.
template <class T>
StepShape prepare_dense_step(Ops<T>& ops, const DenseStepParams<T>& step);
template <class T>
void dense_attention_layer(Ops<T>& ops, const DenseStepParams<T>& step, std::int64_t layer);

// A level of several trees.
template <class T>
void grow_levels(Ops<T>& ops, std::span<const LevelGrowth> trees);

template <class T>
void tree_attention_together(Ops<T>& ops, std::span<const TreeAttentionParams<T>> calls);

}  // namespace versieve::kernels
