#include "engine/run/speculate/recorded_chain.h"

#include <algorithm>
#include <utility>

#include "engine/run/model/device_ints.h"
#include "model/words/assert.h"

namespace versieve::engine {

template <class T>
RecordedChain<T>::RecordedChain(kernels::Ops<T>& ops, Target<T>& model,
                                RecordedChainOptions options)
    : ops_(&ops),
      model_(&model),
      options_(std::move(options)),
      counts_(ops, levels()),
      score_(ops, 1) {
  VERSIEVE_ASSERT(options_.choice.width == 1 && options_.choice.speculates(), "a chain");
  VERSIEVE_ASSERT(model.shape().attention == AttentionKind::kDense, "a draft model is dense");
  const std::int32_t slots = static_cast<std::int32_t>(1 + levels());
  std::vector<std::int32_t> ints(static_cast<std::size_t>(9 + 2 * slots), 0);
  ints[0] = -1;  // the pair: the older token is the root
  ints[2] = -1;  // a node alone
  ints_ = kernels::OpsBuffer<T, std::int32_t>(ops, ints);
  std::int32_t* next = ints_.data();
  const auto place = [&](std::int32_t count) { return std::exchange(next, next + count); };
  pair_parent_ = place(2);
  root_parent_ = place(1);
  passes_ = {.counts = counts_.data(), .token = place(2), .position = place(2)};
  index_ = place(1);
  node_token_ = place(1);
  slot_parent_ = place(slots);
  slot_position_ = place(slots);
  if (options_.chooses) {
    choice_.emplace(options_.layer_map, *options_.chooses);
  }
  if (options_.temperature > 0.0) {
    perturbed_ = kernels::OpsBuffer<T, kernels::SumOf<T>>(ops, model.shape().vocab);
  }
}

template <class T>
void RecordedChain<T>::begin(const Start& start) {
  VERSIEVE_ASSERT(start.context_len >= 1 && model_->length() >= start.context_len - 1,
                  "the draft has read what comes before");
  model_->cache().reserve(start.max_context + levels() + 2);
  const std::int32_t root = static_cast<std::int32_t>(start.context_len);
  const std::int32_t pair[] = {start.token_before, start.token, root - 1, root};
  ops_->upload(passes_.token, pair, sizeof pair);
  const kernels::StepCounts counts{.context_len = root - 1};
  ops_->upload(counts_.data(), &counts, sizeof counts);
  if (chooses()) {
    stride_ = start.max_context + levels() + 1;
    ensure_count(*ops_, weights_, model_->shape().layers * levels() * stride_);
  }
}

template <class T>
void RecordedChain<T>::enqueue(kernels::StepState* state, std::int64_t bound) {
  for (std::int64_t level = 0; level < levels(); ++level) {
    pass(level, bound);
    grow(level, state);
  }
  model_->set_attention_capture({});
  if (!chooses() || !choice_->matters()) {
    return;
  }
  if (options_.beside) {
    ops_->enqueue_beside([&] { choose(state, bound); });
  } else {
    choose(state, bound);
  }
}

// Level 0: the two newest tokens. The older one's row may be there already; it is written again,
// with the same bits.
template <class T>
void RecordedChain<T>::pass(std::int64_t level, std::int64_t bound) {
  if (chooses()) {
    model_->set_attention_capture({.first_layer = choice_->first_asked(),
                                   .layer_stride = levels() * stride_,
                                   .weights = weights_.data() + level * stride_});
  }
  const bool first = level == 0;
  model_->verify_device({.nodes = first ? 2 : 1,
                         .max_depth = first ? 1 : 0,
                         .max_context = bound + levels() - 1,
                         .chain = true,
                         .keeps_rows = true,
                         .counts = passes_.counts + level,
                         .token = first ? passes_.token : node_token_,
                         .parent = first ? pair_parent_ : root_parent_,
                         .position = first ? passes_.position : slot_position_ + level},
                        {.last_logits_only = true});
}

template <class T>
void RecordedChain<T>::grow(std::int64_t level, kernels::StepState* state) {
  const std::int64_t vocab = model_->shape().vocab;
  const kernels::GrowTreeParams growth{.choice = options_.choice,
                                       .branch = 1,
                                       .level = level,
                                       .index = index_,
                                       .log_probability = score_.data(),
                                       .state = state,
                                       .node_token = node_token_,
                                       .slot_parent = slot_parent_,
                                       .slot_position = slot_position_,
                                       .passes = passes_};
  if (options_.temperature == 0.0) {
    ops_->grow_tree_from({.rows = 1,
                          .vocab = vocab,
                          .k = 1,
                          .logits = model_->logits(),
                          .index = index_,
                          .log_probability = score_.data()},
                         growth);
    return;
  }
  ops_->gumbel_top({.rows = 1,
                    .vocab = vocab,
                    .k = 1,
                    .temperature = options_.temperature,
                    .device_seed = &state->seed,
                    .logits = model_->logits(),
                    .position = level == 0 ? passes_.position + 1 : slot_position_ + level,
                    .perturbed = perturbed_.data(),
                    .index = index_,
                    .log_probability = score_.data()});
  ops_->grow_tree(growth);
}

template <class T>
void RecordedChain<T>::choose(const kernels::StepState* state, std::int64_t bound) {
  choice_->choose(*ops_, {.steps = levels(),
                          .context_len = bound,
                          .counts = &state->counts,
                          .stride = stride_,
                          .layer_stride = levels() * stride_,
                          .first_layer = choice_->first_asked(),
                          .weights = weights_.data()});
}

template <class T>
kernels::SelectedTokens RecordedChain<T>::select(const LayerQueries<T>& layer) {
  if (options_.beside && choice_->is_first_to_choose(layer.layer)) {
    ops_->join_beside();
  }
  return choice_->of_layer(layer.layer);
}

template <class T>
void RecordedChain<T>::count_step(std::int64_t context_len) {
  if (chooses()) {
    choice_->count(context_len);
  }
}

template class RecordedChain<double>;
template class RecordedChain<float>;
template class RecordedChain<Bf16>;

}  // namespace versieve::engine
