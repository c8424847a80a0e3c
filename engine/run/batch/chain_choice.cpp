#include "engine/run/batch/chain_choice.h"

#include "kernels/choose_together.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
ChainChoice<T>::ChainChoice(kernels::Ops<T>& ops, const ChainChoiceShape& shape,
                            const SpecAttnOptions& options)
    : shape_(shape),
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
void ChainChoice<T>::choose_together(kernels::Ops<T>& ops, std::span<ChainChoice* const> choices) {
  std::vector<kernels::TopPParams<kernels::SumOf<T>>> shares;
  std::vector<kernels::TokenListParams> lists;
  for (ChainChoice* const own : choices) {
    const auto calls = own->choice_.choice_calls(
        ops, {.steps = own->captured_,
              .context_len = own->position_,
              .stride = own->shape_.positions,
              .layer_stride = own->shape_.levels * own->shape_.positions,
              .first_layer = own->choice_.first_asked(),
              .weights = own->weights_.data()});
    if (calls) {
      shares.push_back(calls->shares);
      lists.push_back(calls->lists);
    }
    own->choice_.count(own->position_);
  }
  kernels::top_p_together<T>(ops, shares);
  kernels::token_list_together<T>(ops, lists);
}

template <class T>
StepLists ChainChoice<T>::lists(std::int64_t context_len) const {
  VERSIEVE_ASSERT(context_len == position_, "one step's draft and verify");
  return choice_.step_lists();
}

template class ChainChoice<double>;
template class ChainChoice<float>;
template class ChainChoice<Bf16>;

}  // namespace versieve::engine
