// SpecAttn's choice (seed 003, algorithm 1): the tokens that carry a share p of the draft's
// attention in any of its steps, draft layer by draft layer; a target layer reads the tokens of the
// draft layer that speaks for it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/speculate/model_drafter.h"
#include "engine/speculate/token_lists.h"
#include "kernels/top_p/params.h"

namespace versieve::engine {

struct SpecAttnOptions {
  double p = 0.97;
  std::int64_t iterations = kernels::kTopPHalvings;  // of the bisection
  std::int64_t chunk = 16;                           // tokens that are read together
  std::int64_t dense_layers = 2;  // first layers, whose attention is diffuse, read everything
};

// Device memory of a choice; it only grows.
template <class T>
struct ChoiceBuffers {
  kernels::OpsBuffer<T, std::int32_t> mask;
  kernels::OpsBuffer<T, kernels::SumOf<T>> mass;
};

// Tokens by draft layer, from the attention of one chain; none for layers that were not kept.
// [draft layers]
template <class T>
std::vector<TokenList> chosen_tokens(kernels::Ops<T>& ops, const DraftAttention<T>& attention,
                                     std::int64_t draft_layers, const SpecAttnOptions& options,
                                     ChoiceBuffers<T>& buffers);
template <class T>
std::vector<TokenList> chosen_tokens(kernels::Ops<T>& ops, const DraftAttention<T>& attention,
                                     std::int64_t draft_layers, const SpecAttnOptions& options) {
  ChoiceBuffers<T> buffers;
  return chosen_tokens(ops, attention, draft_layers, options, buffers);
}

// Chooses anew for each verify, from what the drafter's newest chain attended to.
template <class T>
class SpecAttnSelector final : public ListSelector<T> {
 public:
  // `drafter` keeps its attention (capture_attention) and outlives this.
  SpecAttnSelector(kernels::Ops<T>& ops, const ModelDrafter<T>& drafter,
                   std::vector<std::int32_t> layer_map, const SpecAttnOptions& options);

 protected:
  const TokenList* tokens_of(const LayerQueries<T>& layer) override;
  bool keeps_lists() const override { return true; }

 private:
  const ModelDrafter<T>* drafter_;
  std::vector<std::int32_t> layer_map_;  // [target layers]
  SpecAttnOptions options_;
  ChoiceBuffers<T> buffers_;
  std::vector<TokenList> chosen_;  // [draft layers]
};

}  // namespace versieve::engine
