#include "engine/speculate/draft_choice.h"

#include <algorithm>

#include "model/assert.h"

namespace versieve::engine {

template <class T>
std::vector<TokenList> chosen_tokens(kernels::Ops<T>& ops, const DraftAttention<T>& attention,
                                     std::int64_t draft_layers, const SpecAttnOptions& options,
                                     ChoiceBuffers<T>& buffers) {
  VERSIEVE_ASSERT(attention.steps >= 1, "a chain attended to something");
  const std::int64_t kept = std::max<std::int64_t>(0, draft_layers - attention.first_layer);
  const std::int64_t length = attention.context_len;
  ensure_count(ops, buffers.mask, kept * length);
  ensure_count(ops, buffers.mass, attention.steps);
  for (std::int64_t i = 0; i < kept; ++i) {
    ops.top_p({.rows = attention.steps,
               .length = length,
               .row_stride = attention.stride,
               .p = options.p,
               .iterations = options.iterations,
               .weights = attention.weights + (attention.first_layer + i) * attention.layer_stride,
               .mask = buffers.mask.data() + i * length,
               .mass = buffers.mass.data()});
  }
  std::vector<std::int32_t> masks(static_cast<std::size_t>(kept * length));
  ops.download(masks.data(), buffers.mask.data(), masks.size() * sizeof(std::int32_t));
  std::vector<TokenList> chosen(static_cast<std::size_t>(draft_layers - kept));
  for (std::int64_t i = 0; i < kept; ++i) {
    const auto first = masks.begin() + i * length;
    chosen.push_back(chunked_tokens({first, first + length}, options.chunk));
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
    chosen_ = chosen_tokens(this->ops(), attention, layer_map_.back() + 1, options_, buffers_);
  }
  if (layer.layer < options_.dense_layers) {
    return nullptr;
  }
  const std::int32_t draft_layer = layer_map_[static_cast<std::size_t>(layer.layer)];
  return &chosen_[static_cast<std::size_t>(draft_layer)];
}

template std::vector<TokenList> chosen_tokens(kernels::Ops<double>&, const DraftAttention<double>&,
                                              std::int64_t, const SpecAttnOptions&,
                                              ChoiceBuffers<double>&);
template std::vector<TokenList> chosen_tokens(kernels::Ops<float>&, const DraftAttention<float>&,
                                              std::int64_t, const SpecAttnOptions&,
                                              ChoiceBuffers<float>&);
template std::vector<TokenList> chosen_tokens(kernels::Ops<Bf16>&, const DraftAttention<Bf16>&,
                                              std::int64_t, const SpecAttnOptions&,
                                              ChoiceBuffers<Bf16>&);
template class SpecAttnSelector<double>;
template class SpecAttnSelector<float>;
template class SpecAttnSelector<Bf16>;

}  // namespace versieve::engine
