// Attention of a dense target's layers: over all tokens, over those that somebody chose (SpecAttn,
// an indexer), with the newest query's weights kept where they are asked for.
#pragma once

#include <cstdint>
#include <span>

#include "engine/run/model/attention_step.h"
#include "engine/run/model/token_selector.h"
#include "kernels/ops_together.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

// Where the attention weights of each layer's last query go (ops.h, AttentionWeightsParams).
template <class T>
struct AttentionCapture {
  std::int64_t first_layer = 0;          // layers before it are left out
  std::int64_t layer_stride = 0;         // elements between layers
  kernels::SumOf<T>* weights = nullptr;  // [layers, position + 1], or null: nowhere
};

template <class T>
class DenseAttention {
 public:
  DenseAttention(kernels::Ops<T>& ops, const LlmShape& shape) : ops_(&ops), shape_(shape) {}

  void set_capture(const AttentionCapture<T>& capture) { capture_ = capture; }
  void set_selector(TokenSelector<T>* selector) { selector_ = selector; }  // null: all tokens
  // One sequence's, which may have its tokens chosen and its weights kept: by what was set.
  void attend(const AttentionStep<T>& step, std::int64_t layer) {
    attend(step, layer, selector_, capture_);
  }
  // The same by its own. `selector`: null: all tokens.
  void attend(const AttentionStep<T>& step, std::int64_t layer, TokenSelector<T>* selector,
              const AttentionCapture<T>& capture);
  // As NsaAttention's: once a step of several sequences, then layer by layer; each reads the tokens
  // that it has selected, and those that have no list may keep their weights.
  kernels::StepShape prepare(std::span<const AttentionStep<T>> steps);
  void attend_prepared(std::int64_t layer) {
    if (!together_.calls.empty()) {
      kernels::dense_attention_layer<T>(*ops_, together_, layer);
    }
  }

  // What a selector is told of that layer.
  LayerQueries<T> queries_of(const AttentionStep<T>& step, std::int64_t layer) const;

 private:
  static void choose(kernels::TreeAttentionParams<T>& p, const kernels::SelectedTokens& selected);
  kernels::TreeAttentionParams<T> params_of(const AttentionStep<T>& step, std::int64_t layer) const;

  kernels::Ops<T>* ops_;
  LlmShape shape_;
  AttentionCapture<T> capture_;
  TokenSelector<T>* selector_ = nullptr;
  kernels::DenseStepParams<T> together_;
};

}  // namespace versieve::engine
