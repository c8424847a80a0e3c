// What a DraftSource asks of the thing that drafts: a draft head on the target's streams
// (HeadDrafter) or a model of its own (model_drafter.h).
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "engine/run/model/draft.h"
#include "engine/run/speculate/tree_source.h"
#include "kernels/common/bf16.h"

namespace versieve::engine {

// A target's logit in a row of a draft that has no such token: no softmax and no sigmoid of it is
// above zero in any format. Finite, since sums over pieces of a row take differences of logits.
template <class T>
T never_proposed() {
  constexpr double kLogit = -1e30;
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(kLogit);
  } else {
    return static_cast<T>(kLogit);
  }
}

template <class T>
class Drafter {
 public:
  using Nodes = typename Draft<T>::Nodes;

  virtual ~Drafter() = default;
  // Takes what was committed since the last call; logits() row 0 then follows the root, the newest
  // of the observed next tokens, at `position`.
  virtual void begin(std::int64_t position, const Observation<T>& observation) = 0;
  // Runs nodes of the growing tree; logits() then has a row a node. Slot s is the s-th node given
  // since begin; parent -1 is the root.
  virtual void step(const Nodes& nodes) = 0;
  virtual const T* logits() const = 0;  // [rows, vocab()]
  virtual std::int64_t vocab() const = 0;
  // The target's token of a draft token.
  virtual std::int32_t target_token(std::int32_t draft_token) const { return draft_token; }
  // [vocab()]: the target's tokens; empty: the same vocabulary.
  virtual std::vector<std::int32_t> target_tokens() const { return {}; }
};

template <class T>
class HeadDrafter final : public Drafter<T> {
 public:
  explicit HeadDrafter(Draft<T>& draft) : draft_(&draft) {}

  void begin(std::int64_t position, const Observation<T>& observation) override;
  void step(const typename Drafter<T>::Nodes& nodes) override { draft_->step(nodes); }
  const T* logits() const override { return draft_->logits(); }
  std::int64_t vocab() const override { return draft_->shape().vocab; }
  std::int32_t target_token(std::int32_t token) const override {
    return draft_->target_token(token);
  }
  std::vector<std::int32_t> target_tokens() const override { return draft_->target_tokens(); }

 private:
  Draft<T>* draft_;
};

}  // namespace versieve::engine
