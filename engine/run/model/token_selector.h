// Which committed tokens a dense target's layer reads when it verifies: SpecAttn's choice, an
// indexer's (index_selector.h) or another's (engine/run/specattn). The drafted tokens are always
// read.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/ops.h"

namespace versieve::engine {

// One layer of the running verify, in the target's memory.
template <class T>
struct LayerQueries {
  std::int64_t layer = 0;
  std::int64_t num_queries = 0;                 // N
  std::int64_t num_kv_heads = 0;                // G
  std::int64_t context_len = 0;                 // L, or of a recorded step its bound
  const kernels::StepCounts* counts = nullptr;  // of a recorded step: L; else null
  const T* q = nullptr;                         // [N, H, d], after rotary
  const T* k = nullptr;                         // [L, G, d]
};

// The lists that a sequence's layers read in a step, all made before it.
struct StepLists {
  kernels::SelectedTokens first = {};  // of them; null: the layers read all tokens
  std::int64_t stride = 0;             // elements between two lists, whose counts lie side by side
  std::span<const std::int32_t> of_layer = {};  // [layers], -1: all tokens; outlives the step
};

template <class T>
class TokenSelector {
 public:
  virtual ~TokenSelector() = default;
  // Called once a layer, in order. The list stays valid until the next call.
  virtual kernels::SelectedTokens select(const LayerQueries<T>& layer) = 0;
};

}  // namespace versieve::engine
