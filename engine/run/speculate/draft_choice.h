// SpecAttn's choice (SpecAttn, algorithm 1): the tokens that carry a share p of the draft's
// attention in any of its steps, draft layer by draft layer; a target layer reads the tokens of the
// draft layer that speaks for it. Lists are made and stay where the attention is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/speculate/model_drafter.h"
#include "engine/run/speculate/token_lists.h"
#include "kernels/top_p/params.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct SpecAttnOptions {
  double p = 0.97;
  std::int64_t iterations = kernels::kTopPHalvings;  // of the bisection
  std::int64_t chunk = 16;                           // tokens that are read together
  std::int64_t dense_layers = 2;  // first layers, whose attention is diffuse, read everything
};
// What a strategy of SpecAttn asks for.
SpecAttnOptions specattn_options(const Strategy& strategy);
// Why nobody chooses the tokens of that target, or an empty text. `draft_model`: or null.
std::string specattn_refusal(const LlmShape& target, const LlmShape* draft_model,
                             bool has_layer_map);

// The two ops of a choice, which may be several sequences' at once (kernels/choose_together.h).
template <class T>
struct ChoiceCalls {
  kernels::TopPParams<kernels::SumOf<T>> shares;
  kernels::TokenListParams lists;
};

// The lists of one choice, a kept draft layer each, in memory of the Ops.
template <class T>
class ChosenLists {
 public:
  // Chooses from the attention of one chain, for the layers below `draft_layers` that were kept.
  // Enqueues, never waits. Memory only grows.
  void choose(kernels::Ops<T>& ops, const DraftAttention<T>& attention, std::int64_t draft_layers,
              const SpecAttnOptions& options);
  // The same left to the caller to enqueue; nothing where no token or no layer is asked for.
  std::optional<ChoiceCalls<T>> choice_calls(kernels::Ops<T>& ops,
                                             const DraftAttention<T>& attention,
                                             std::int64_t draft_layers,
                                             const SpecAttnOptions& options);

  std::int64_t first_layer() const { return first_layer_; }
  std::int64_t lists() const { return lists_; }
  // REQUIRES: the layer was kept.
  kernels::SelectedTokens of_layer(std::int64_t draft_layer) const;
  // Of the first kept layer, or null where none is asked for; those of further ones lie behind it.
  kernels::SelectedTokens first() const {
    return lists_ == 0 || length_ == 0 ? kernels::SelectedTokens{} : of_layer(first_layer_);
  }
  std::int64_t room() const { return room_; }
  // The newest lists by draft layer, empty where none was kept. Waits.
  std::vector<TokenList> read(kernels::Ops<T>& ops) const;
  // Tokens listed since the first choice, by kept layer. Waits.
  std::vector<std::int64_t> totals() const { return total_.read(); }

 private:
  std::int64_t first_layer_ = 0, lists_ = 0, length_ = 0;
  std::int64_t room_ = 0;                          // of a list
  kernels::OpsBuffer<T, std::int32_t> mask_;       // [lists, room]
  kernels::OpsBuffer<T, std::int32_t> token_;      // [lists, room]
  kernels::OpsBuffer<T, std::int32_t> count_;      // [lists]
  kernels::OpsBuffer<T, std::int64_t> total_;      // [lists]
  kernels::OpsBuffer<T, kernels::SumOf<T>> mass_;  // [lists, steps]
};

// Tokens by draft layer, on the host.
template <class T>
std::vector<TokenList> chosen_tokens(kernels::Ops<T>& ops, const DraftAttention<T>& attention,
                                     std::int64_t draft_layers, const SpecAttnOptions& options) {
  ChosenLists<T> lists;
  lists.choose(ops, attention, draft_layers, options);
  return lists.read(ops);
}

// The draft layers before it are never asked: a map ascends. REQUIRES: the map is not empty.
std::int64_t first_asked_layer(const std::vector<std::int32_t>& layer_map,
                               const SpecAttnOptions& options);

// What each target layer reads of a chain's choice, and how much that was: the same in a led step
// and in a recorded one.
template <class T>
class LayerChoice {
 public:
  // `layer_map`: the draft layer that chooses for each target layer.
  LayerChoice(std::vector<std::int32_t> layer_map, const SpecAttnOptions& options);

  // From now on; of the same layers.
  void use(const SpecAttnOptions& options);
  std::int64_t first_asked() const { return first_asked_layer(layer_map_, options_); }
  // Whether any target layer reads less than all.
  bool matters() const {
    return static_cast<std::int64_t>(layer_map_.size()) > options_.dense_layers;
  }
  bool is_first_to_choose(std::int64_t layer) const { return layer == options_.dense_layers; }
  // Enqueues, never waits.
  void choose(kernels::Ops<T>& ops, const DraftAttention<T>& attention) {
    chosen_.choose(ops, attention, layer_map_.back() + 1, options_);
  }
  std::optional<ChoiceCalls<T>> choice_calls(kernels::Ops<T>& ops,
                                             const DraftAttention<T>& attention) {
    return chosen_.choice_calls(ops, attention, layer_map_.back() + 1, options_);
  }
  kernels::SelectedTokens of_layer(std::int64_t layer) const;
  // The same of all layers at once.
  StepLists step_lists() const;
  // A step over so many committed tokens.
  void count(std::int64_t context_len);
  // Of all steps that were counted. Waits.
  ReadCount reads() const;
  // The same of the layers that choose alone.
  ReadCount chosen() const;

 private:
  bool reads_all(std::int64_t layer) const { return layer < options_.dense_layers; }

  std::vector<std::int32_t> layer_map_;      // [target layers]
  std::vector<std::int32_t> list_of_layer_;  // likewise, as StepLists has it
  SpecAttnOptions options_;
  ChosenLists<T> chosen_;
  std::int64_t present_ = 0;  // committed tokens of a layer, over all steps
};

// Chooses anew for each verify, from what the drafter's newest chain attended to; nothing of it
// waits for the device.
template <class T>
class SpecAttnSelector final : public TokenSelector<T> {
 public:
  // `drafter` keeps its attention (capture_attention) and outlives this.
  SpecAttnSelector(kernels::Ops<T>& ops, const ModelDrafter<T>& drafter,
                   std::vector<std::int32_t> layer_map, const SpecAttnOptions& options);

  kernels::SelectedTokens select(const LayerQueries<T>& layer) override;
  // Of all verifies so far. Waits.
  ReadCount reads() const { return choice_.reads(); }
  // The same of the layers that choose alone.
  ReadCount chosen() const { return choice_.chosen(); }

 private:
  kernels::Ops<T>* ops_;
  const ModelDrafter<T>* drafter_;
  LayerChoice<T> choice_;
};

}  // namespace versieve::engine
