#include "engine/run/speculate/specattn_chain.h"

#include <utility>

#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/model_drafter.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
SpecAttnChain<T>::SpecAttnChain(Prefilled<T>& prefilled, const GenerateOptions& options,
                                std::vector<std::int32_t> text,
                                const std::vector<std::int32_t>& layer_map)
    : prefilled_(&prefilled) {
  VERSIEVE_ASSERT(prefilled.draft_model() != nullptr, "a draft model attends");
  const DraftChoice& chain = options.strategy.draft;
  auto drafter = std::make_unique<ModelDrafter<T>>(prefilled.ops(), *prefilled.draft_model(),
                                                   std::move(text), true);
  const SpecAttnOptions choice = specattn_options(options.strategy);
  drafter->capture_attention(chain.levels(), first_asked_layer(layer_map, choice));
  selector_ = std::make_unique<SpecAttnSelector<T>>(prefilled.ops(), *drafter, layer_map, choice);
  source_ = std::make_unique<DraftSource<T>>(
      prefilled.ops(), std::move(drafter),
      DraftSourceOptions{
          .choice = chain,
          .order = options.strategy.order,
          .temperature = options.temperature,
          .seed = options.seed,
          .sampling = options.strategy.sampling.value_or(SamplingAlgorithm::kCoupled),
          .truncation = options.truncation});
  prefilled_->target().set_token_selector(selector_.get());
}

template <class T>
SpecAttnChain<T>::~SpecAttnChain() {
  prefilled_->target().set_token_selector(nullptr);
}

template class SpecAttnChain<double>;
template class SpecAttnChain<float>;
template class SpecAttnChain<Bf16>;

}  // namespace versieve::engine
