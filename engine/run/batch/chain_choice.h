// Of a request of SpecAttn among others: what its chain attended to, draft step by draft step, and
// the tokens that the target then reads by it. As ModelDrafter and SpecAttnSelector
// (engine/run/speculate), whose lists these are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/dense_attention.h"
#include "engine/run/speculate/draft_choice.h"

namespace versieve::engine {

// What one is made for: its sizes are those of its memory.
struct ChainChoiceShape {
  std::int64_t draft_layers = 0;
  std::int64_t levels = 0;              // steps of the draft in its longest chain
  std::int64_t positions = 0;           // that its longest text may have
  std::vector<std::int32_t> layer_map;  // the draft layer that chooses for each target layer
};

template <class T>
class ChainChoice {
 public:
  ChainChoice(kernels::Ops<T>& ops, const ChainChoiceShape& shape, const SpecAttnOptions& options);
  // Device memory that it comes to take.
  static std::int64_t bytes(const ChainChoiceShape& shape, const SpecAttnOptions& options);

  // Of the chains and verifies from now on.
  void use(const Strategy& strategy);
  // A chain whose root stands at `position`; next_capture() is then of its root.
  void begin(std::int64_t position);
  // Where the draft's next step of the chain leaves its weights.
  AttentionCapture<T> next_capture();
  // Each chooses from its chain's attention, for the next verify: few launches of all. Enqueues,
  // never waits.
  static void choose_together(kernels::Ops<T>& ops, std::span<ChainChoice* const> choices);

  // What the layers of the verify of the chain read over so many tokens. REQUIRES: that was chosen.
  StepLists lists(std::int64_t context_len) const;
  // Of all verifies that were chosen for. Waits.
  ReadCount reads() const { return choice_.reads(); }

 private:
  ChainChoiceShape shape_;
  LayerChoice<T> choice_;
  std::int64_t levels_ = 0;                           // of the strategy's chains
  std::int64_t position_ = 0;                         // of the chain's root
  std::int64_t captured_ = 0;                         // rows of the chain
  kernels::OpsBuffer<T, kernels::SumOf<T>> weights_;  // [draft layers, levels, positions]
};

}  // namespace versieve::engine
