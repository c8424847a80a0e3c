#include "engine/speculate/draft_choice.h"

#include <algorithm>

#include "model/assert.h"

namespace versieve::engine {

template <class T>
std::vector<TokenList> chosen_tokens(kernels::Ops<T>& ops, const DraftAttention<T>& attention,
                                     std::int64_t draft_layers, const SpecAttnOptions& options) {
  using S = kernels::SumOf<T>;
  VERSIEVE_ASSERT(attention.steps >= 1, "a chain attended to something");
  kernels::OpsBuffer<T, std::int32_t> mask(ops, draft_layers * attention.context_len);
  kernels::OpsBuffer<T, S> mass(ops, attention.steps);
  for (std::int64_t layer = 0; layer < draft_layers; ++layer) {
    ops.top_p({.rows = attention.steps,
               .length = attention.context_len,
               .row_stride = attention.stride,
               .p = options.p,
               .iterations = options.iterations,
               .weights = attention.weights + layer * attention.layer_stride,
               .mask = mask.data() + layer * attention.context_len,
               .mass = mass.data()});
  }
  const std::vector<std::int32_t> masks = mask.read();
  std::vector<TokenList> chosen;
  for (std::int64_t layer = 0; layer < draft_layers; ++layer) {
    const auto first = masks.begin() + layer * attention.context_len;
    chosen.push_back(chunked_tokens({first, first + attention.context_len}, options.chunk));
  }
  return chosen;
}

template <class T>
SpecAttnSelector<T>::SpecAttnSelector(kernels::Ops<T>& ops, const ModelDrafter<T>& drafter,
                                      std::vector<std::int32_t> layer_map,
                                      const SpecAttnOptions& options)
    : ListSelector<T>(ops),
      drafter_(&drafter),
      layer_map_(std::move(layer_map)),
      options_(options) {
  VERSIEVE_ASSERT(!layer_map_.empty(), "every target layer has a draft layer");
}

template <class T>
const TokenList* SpecAttnSelector<T>::tokens_of(const LayerQueries<T>& layer) {
  if (layer.layer == 0) {
    const DraftAttention<T> attention = drafter_->attention();
    VERSIEVE_ASSERT(attention.context_len == layer.context_len, "one step's draft and verify");
    chosen_ = chosen_tokens(this->ops(), attention, layer_map_.back() + 1, options_);
  }
  if (layer.layer < options_.dense_layers) {
    return nullptr;
  }
  const std::int32_t draft_layer = layer_map_[static_cast<std::size_t>(layer.layer)];
  return &chosen_[static_cast<std::size_t>(draft_layer)];
}

template std::vector<TokenList> chosen_tokens(kernels::Ops<double>&, const DraftAttention<double>&,
                                              std::int64_t, const SpecAttnOptions&);
template std::vector<TokenList> chosen_tokens(kernels::Ops<float>&, const DraftAttention<float>&,
                                              std::int64_t, const SpecAttnOptions&);
template std::vector<TokenList> chosen_tokens(kernels::Ops<Bf16>&, const DraftAttention<Bf16>&,
                                              std::int64_t, const SpecAttnOptions&);
template class SpecAttnSelector<double>;
template class SpecAttnSelector<float>;
template class SpecAttnSelector<Bf16>;

}  // namespace versieve::engine
