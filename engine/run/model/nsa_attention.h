// Native Sparse Attention of a target's layers: which blocks a layer reads, its own or those of the
// refresh layer before it, and the compressed tokens that a draft tree completes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/attention_step.h"
#include "engine/run/model/weights.h"
#include "kernels/nsa_verify/prompt.h"
#include "kernels/ops_together.h"
#include "model/words/llm_shape.h"

namespace versieve::engine {

template <class T>
class NsaAttention {
 public:
  NsaAttention(kernels::Ops<T>& ops, const LlmShape& shape) : ops_(&ops), shape_(shape) {}

  // Blocks of earlier steps are forgotten where there must be more room.
  void ensure_rows(std::int64_t rows);
  // How the nodes' path-local compressed tokens are pooled; without rows where there are none.
  kernels::CompressParams<T> compressed_tokens(const AttentionStep<T>& step,
                                               const LayerWeights<T>& w, std::int64_t layer) const;
  // The blocks that a reuse layer takes, [N, G, n]. Null: the layer routes, and the reuse layers
  // after it take its blocks.
  const std::int32_t* reused_blocks(const VerifyOptions& options, std::int64_t layer,
                                    std::int64_t first_row = 0) const;
  // Of a step of one sequence.
  void attend(const AttentionStep<T>& step, std::int64_t layer);
  // Before a step of several is prepared whose prompts' rows are attended by launches of their own.
  void reserve_prompt(const AttentionStep<T>& step) {
    kernels::reserve_nsa_prompt(*ops_, params_of(step, 0));
  }
  // Of several, whose caches are of one pool: what its layers share, once, before the first one.
  kernels::StepShape prepare(std::span<const AttentionStep<T>> steps);
  // That layer of the step that was prepared.
  void attend_prepared(std::int64_t layer) {
    if (!together_.calls.empty()) {
      kernels::nsa_verify_layer<T>(*ops_, together_, layer);
    }
  }

  // [N, G, n], from a node's row on.
  std::int32_t* blocks_of(std::int64_t layer, std::int64_t first_row = 0) const {
    return indices_.data() + (layer * rows_ + first_row) * row();
  }
  std::vector<std::int32_t> selected_blocks(std::int64_t layer, std::int64_t nodes,
                                            std::int64_t first_row = 0) const;
  // [G, n] or empty: where the next verify's ranking begins (gvr), until it has begun.
  std::vector<std::int32_t> hinted_blocks(std::int64_t layer) const;
  // The node whose blocks the next step may begin with; -1: none.
  void set_hint(std::int64_t node) { hint_row_ = node; }

 private:
  std::int64_t row() const { return shape_.num_kv_heads * shape_.nsa.sel_count; }
  kernels::NsaVerifyParams<T> params_of(const AttentionStep<T>& step, std::int64_t layer) const;
  const std::int32_t* hint_of(std::int64_t layer) const;
  std::vector<std::int32_t> read(const std::int32_t* from, std::int64_t count) const;

  kernels::Ops<T>* ops_;
  LlmShape shape_;
  std::int64_t rows_ = 0;
  std::int64_t hint_row_ = -1;                   // none
  kernels::OpsBuffer<T, std::int32_t> indices_;  // [layers, rows, G, n]
  kernels::NsaStepParams<T> together_;           // of the running step
};

}  // namespace versieve::engine
