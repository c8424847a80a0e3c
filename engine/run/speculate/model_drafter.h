// A draft that is a model of its own, with its own cache: a small Llama that reads the same tokens
// as the target. A chain is decoded token by token; a tree is run again with each level, since its
// nodes have no rows of their own between calls.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/run/model/target.h"
#include "engine/run/speculate/drafter.h"

namespace versieve::engine {

// Head-averaged attention weights of a chain's draft steps, layer by layer (SpecAttn, algorithm 1).
template <class T>
struct DraftAttention {
  std::int64_t steps = 0;        // gamma: the root and all drafted tokens but the last
  std::int64_t context_len = 0;  // of the root: weights of positions below it are given
  const kernels::StepCounts* counts = nullptr;  // or null; not null: that length, and a bound here
  std::int64_t stride = 0;                      // between rows
  std::int64_t layer_stride = 0;
  std::int64_t first_layer = 0;                // layers before it were not kept
  const kernels::SumOf<T>* weights = nullptr;  // [layers, rows, stride], device memory
};

template <class T>
class ModelDrafter final : public Drafter<T> {
 public:
  // `model` holds the first tokens of `text` in its cache, or any others: what differs is dropped.
  // `chain`: every tree is one path. Both outlive this.
  ModelDrafter(kernels::Ops<T>& ops, Target<T>& model, std::vector<std::int32_t> text, bool chain);
  ~ModelDrafter() override;

  void begin(std::int64_t position, const Observation<T>& observation) override;
  void step(const typename Drafter<T>::Nodes& nodes) override;
  const T* logits() const override { return logits_; }
  std::int64_t vocab() const override { return model_->shape().vocab; }

  // From the next begin on the attention of up to `steps` draft steps is kept. REQUIRES: chain.
  // From that layer of the model on.
  void capture_attention(std::int64_t steps, std::int64_t first_layer = 0);
  DraftAttention<T> attention() const;

 private:
  void catch_up(std::int64_t position);
  void step_chain(const typename Drafter<T>::Nodes& nodes);
  void aim_capture();

  kernels::Ops<T>* ops_;
  Target<T>* model_;
  bool chain_;
  std::vector<std::int32_t> text_;    // the true tokens, root included
  std::vector<std::int32_t> cached_;  // tokens whose rows the model's cache holds
  std::int64_t root_position_ = 0;
  DraftTree tree_;  // root and all nodes since begin, if no chain
  const T* logits_ = nullptr;

  std::int64_t capture_steps_ = 0;  // 0: none
  std::int64_t capture_layer_ = 0;  // the first
  std::int64_t captured_ = 0;       // rows of this chain
  std::int64_t stride_ = 0;
  kernels::OpsBuffer<T, kernels::SumOf<T>> weights_;  // [layers, capture_steps, stride]
};

}  // namespace versieve::engine
