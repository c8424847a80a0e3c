#include "engine/run/batch/chain_choice.h"

#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
ChainChoice<T>::ChainChoice(kernels::Ops<T>& ops, const ChainChoiceShape& shape,
                            const SpecAttnOptions& options)
    : ops_(&ops),
      shape_(shape),
      choice_(shape.layer_map, options),
      weights_(ops, shape.draft_layers * shape.levels * shape.positions) {}

template <class T>
std::int64_t ChainChoice<T>::bytes(const ChainChoiceShape& shape, const SpecAttnOptions& options) {
  constexpr std::int64_t kSum = sizeof(kernels::SumOf<T>);
  const std::int64_t lists =
      shape.layer_map.back() + 1 - first_asked_layer(shape.layer_map, options);
  const std::int64_t of_list = 2 * 4 * shape.positions + 4 + 8 + kSum * shape.levels;
  return kSum * shape.draft_layers * shape.levels * shape.positions + lists * of_list;
}

template <class T>
void ChainChoice<T>::use(const Strategy& strategy) {
  levels_ = strategy.draft.levels();
  VERSIEVE_ASSERT(levels_ <= shape_.levels, "there is room for each step's weights");
  choice_.use(specattn_options(strategy));
}

template <class T>
void ChainChoice<T>::begin(std::int64_t position) {
  VERSIEVE_ASSERT(position + levels_ <= shape_.positions, "there is room for the chain's weights");
  position_ = position;
  captured_ = 0;
}

template <class T>
AttentionCapture<T> ChainChoice<T>::next_capture() {
  VERSIEVE_ASSERT(captured_ < levels_, "a chain has so many steps");
  return {.first_layer = choice_.first_asked(),
          .layer_stride = shape_.levels * shape_.positions,
          .weights = weights_.data() + captured_++ * shape_.positions};
}

template <class T>
void ChainChoice<T>::choose() {
  choice_.choose(*ops_, {.steps = captured_,
                         .context_len = position_,
                         .stride = shape_.positions,
                         .layer_stride = shape_.levels * shape_.positions,
                         .first_layer = choice_.first_asked(),
                         .weights = weights_.data()});
  choice_.count(position_);
}

template <class T>
kernels::SelectedTokens ChainChoice<T>::select(const LayerQueries<T>& layer) {
  VERSIEVE_ASSERT(layer.context_len == position_, "one step's draft and verify");
  return choice_.of_layer(layer.layer);
}

template class ChainChoice<double>;
template class ChainChoice<float>;
template class ChainChoice<Bf16>;

}  // namespace versieve::engine
