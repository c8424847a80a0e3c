#include "engine/run/speculate/draft_choice.h"

#include <algorithm>

#include "engine/run/model/device_ints.h"
#include "model/words/assert.h"

namespace versieve::engine {

SpecAttnOptions specattn_options(const Strategy& strategy) {
  VERSIEVE_ASSERT(strategy.attention == AttentionMethod::kSpecAttn, "a strategy of SpecAttn");
  return {.p = strategy.specattn_p};
}

std::string specattn_refusal(const LlmShape& target, const LlmShape* draft_model,
                             bool has_layer_map) {
  if (draft_model == nullptr) {
    return "specattn needs a draft model with attention of its own";
  }
  if (draft_model->max_position < target.max_position) {
    return "specattn needs a draft model that takes as many positions as the target";
  }
  if (draft_model->has_windows()) {
    return "specattn needs a draft model whose layers see all tokens, and this one's see a window";
  }
  return has_layer_map ? ""
                       : "specattn needs the model's layer_map.json: write it with versieve align";
}

template <class T>
void ChosenLists<T>::choose(kernels::Ops<T>& ops, const DraftAttention<T>& attention,
                            std::int64_t draft_layers, const SpecAttnOptions& options) {
  if (const auto calls = choice_calls(ops, attention, draft_layers, options)) {
    ops.top_p(calls->shares);
    ops.token_list(calls->lists);
  }
}

template <class T>
std::optional<ChoiceCalls<T>> ChosenLists<T>::choice_calls(kernels::Ops<T>& ops,
                                                           const DraftAttention<T>& attention,
                                                           std::int64_t draft_layers,
                                                           const SpecAttnOptions& options) {
  VERSIEVE_ASSERT(attention.steps >= 1, "a chain attended to something");
  first_layer_ = attention.first_layer;
  length_ = attention.context_len;
  const std::int64_t lists = std::max<std::int64_t>(0, draft_layers - first_layer_);
  if (lists != lists_) {
    lists_ = lists;
    total_ = kernels::OpsBuffer<T, std::int64_t>(
        ops, std::vector<std::int64_t>(static_cast<std::size_t>(lists), 0));
  }
  if (lists == 0 || length_ == 0) {
    return {};
  }
  // The rows' stride is longer than the context by a while: no growth in each step.
  room_ = attention.stride;
  ensure_count(ops, mask_, lists * room_);
  ensure_count(ops, token_, lists * room_);
  ensure_count(ops, count_, lists);
  ensure_count(ops, mass_, lists * attention.steps);
  return ChoiceCalls<T>{
      .shares = {.rows = attention.steps,
                 .length = length_,
                 .row_stride = attention.stride,
                 .lists = lists,
                 .list_stride = attention.layer_stride,
                 .mask_stride = room_,
                 .counts = attention.counts,
                 .p = options.p,
                 .iterations = options.iterations,
                 .weights = attention.weights + first_layer_ * attention.layer_stride,
                 .mask = mask_.data(),
                 .mass = mass_.data()},
      .lists = {.lists = lists,
                .length = length_,
                .chunk = options.chunk,
                .token_stride = room_,
                .mask_stride = room_,
                .counts = attention.counts,
                .mask = mask_.data(),
                .token = token_.data(),
                .count = count_.data(),
                .total = total_.data()}};
}

template <class T>
kernels::SelectedTokens ChosenLists<T>::of_layer(std::int64_t draft_layer) const {
  const std::int64_t list = draft_layer - first_layer_;
  VERSIEVE_ASSERT(list >= 0 && list < lists_, "the layer's attention was kept");
  return {
      .token = token_.data() + list * room_, .count = length_, .known_count = count_.data() + list};
}

template <class T>
std::vector<TokenList> ChosenLists<T>::read(kernels::Ops<T>& ops) const {
  std::vector<TokenList> read(static_cast<std::size_t>(first_layer_));
  std::vector<std::int32_t> counts(static_cast<std::size_t>(lists_));
  if (length_ > 0 && lists_ > 0) {
    ops.download(counts.data(), count_.data(), counts.size() * sizeof(std::int32_t));
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    TokenList list(static_cast<std::size_t>(counts[i]));
    if (!list.empty()) {
      ops.download(list.data(), token_.data() + static_cast<std::int64_t>(i) * room_,
                   list.size() * sizeof(std::int32_t));
    }
    read.push_back(std::move(list));
  }
  return read;
}

std::int64_t first_asked_layer(const std::vector<std::int32_t>& layer_map,
                               const SpecAttnOptions& options) {
  VERSIEVE_ASSERT(!layer_map.empty(), "a map says which layer chooses");
  return layer_map[std::min(static_cast<std::size_t>(options.dense_layers), layer_map.size() - 1)];
}

template <class T>
LayerChoice<T>::LayerChoice(std::vector<std::int32_t> layer_map, const SpecAttnOptions& options)
    : layer_map_(std::move(layer_map)) {
  VERSIEVE_ASSERT(!layer_map_.empty(), "every target layer has a draft layer");
  use(options);
}

template <class T>
void LayerChoice<T>::use(const SpecAttnOptions& options) {
  options_ = options;
  list_of_layer_.clear();
  for (const std::int32_t draft_layer : layer_map_) {
    list_of_layer_.push_back(reads_all(std::ssize(list_of_layer_))
                                 ? -1
                                 : draft_layer - static_cast<std::int32_t>(first_asked()));
  }
}

template <class T>
kernels::SelectedTokens LayerChoice<T>::of_layer(std::int64_t layer) const {
  return reads_all(layer) ? kernels::SelectedTokens{}
                          : chosen_.of_layer(layer_map_[static_cast<std::size_t>(layer)]);
}

template <class T>
StepLists LayerChoice<T>::step_lists() const {
  return {.first = matters() ? chosen_.first() : kernels::SelectedTokens{},
          .stride = chosen_.room(),
          .of_layer = list_of_layer_};
}

template <class T>
void LayerChoice<T>::count(std::int64_t context_len) {
  present_ += context_len;
}

template <class T>
ReadCount LayerChoice<T>::reads() const {
  const std::int64_t layers = static_cast<std::int64_t>(layer_map_.size());
  const std::int64_t dense = std::min(layers, options_.dense_layers) * present_;
  ReadCount reads = chosen();
  reads += {.read = dense, .present = dense};
  return reads;
}

template <class T>
ReadCount LayerChoice<T>::chosen() const {
  ReadCount reads;
  const std::vector<std::int64_t> totals =
      chosen_.lists() == 0 ? std::vector<std::int64_t>() : chosen_.totals();
  for (std::size_t layer = 0; layer < layer_map_.size(); ++layer) {
    if (!reads_all(static_cast<std::int64_t>(layer))) {
      reads.present += present_;
      reads.read +=
          totals.empty()
              ? 0
              : totals[static_cast<std::size_t>(layer_map_[layer] - chosen_.first_layer())];
    }
  }
  return reads;
}

template <class T>
SpecAttnSelector<T>::SpecAttnSelector(kernels::Ops<T>& ops, const ModelDrafter<T>& drafter,
                                      std::vector<std::int32_t> layer_map,
                                      const SpecAttnOptions& options)
    : ops_(&ops), drafter_(&drafter), choice_(std::move(layer_map), options) {}

template <class T>
kernels::SelectedTokens SpecAttnSelector<T>::select(const LayerQueries<T>& layer) {
  if (layer.layer == 0) {
    const DraftAttention<T> attention = drafter_->attention();
    VERSIEVE_ASSERT(attention.context_len == layer.context_len, "one step's draft and verify");
    choice_.choose(*ops_, attention);
    choice_.count(layer.context_len);
  }
  return choice_.of_layer(layer.layer);
}

template class ChosenLists<double>;
template class ChosenLists<float>;
template class ChosenLists<Bf16>;
template class LayerChoice<double>;
template class LayerChoice<float>;
template class LayerChoice<Bf16>;
template class SpecAttnSelector<double>;
template class SpecAttnSelector<float>;
template class SpecAttnSelector<Bf16>;

}  // namespace versieve::engine
