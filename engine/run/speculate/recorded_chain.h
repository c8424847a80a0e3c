// The chain of a draft model of its own within a recorded step (device_step.h): its passes, the
// growth of the step's pool, and with SpecAttn the tokens that the target reads, chosen from the
// passes' attention. Lengths, lists and their counts are in device memory; nothing asks the host.
// The tokens and the lists are those of ModelDrafter and SpecAttnSelector.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/run/model/target.h"
#include "engine/run/model/token_selector.h"
#include "engine/run/speculate/draft_choice.h"
#include "kernels/draft_tree/params.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct RecordedChainOptions {
  DraftChoice choice;  // width 1
  double temperature = 0.0;
  std::optional<SpecAttnOptions> chooses;  // none: the target reads every token
  std::vector<std::int32_t> layer_map;     // [target layers], where it chooses
  bool beside = true;  // it chooses beside the target's first layers; no bit depends on it
};

template <class T>
class RecordedChain final : public TokenSelector<T> {
 public:
  // `model` outlives this.
  RecordedChain(kernels::Ops<T>& ops, Target<T>& model, RecordedChainOptions options);

  struct Start {
    std::int64_t context_len = 0;  // of the root
    std::int32_t token_before = 0, token = 0;
    std::int64_t max_context = 0;  // of all steps
  };
  // REQUIRES: the model's cache holds the tokens before the root, but for the newest of them.
  void begin(const Start& start);
  // Enqueues the passes and the choice: the state's pool is the chain then. `bound`: of the
  // context.
  void enqueue(kernels::StepState* state, std::int64_t bound);
  // Where acceptance leaves what the next step's first pass takes in.
  kernels::DraftPasses passes() const { return passes_; }

  bool chooses() const { return choice_.has_value(); }
  // The lists of the step that is enqueued. Where the choice runs beside the layers that read
  // everything, the first other one waits for it.
  kernels::SelectedTokens select(const LayerQueries<T>& layer) override;
  // A step over so many committed tokens has run.
  void count_step(std::int64_t context_len);
  // Of all steps that were counted. Waits.
  ReadCount reads() const { return chooses() ? choice_->reads() : ReadCount{}; }

 private:
  std::int64_t levels() const { return options_.choice.levels(); }
  void pass(std::int64_t level, std::int64_t bound);
  void grow(std::int64_t level, kernels::StepState* state);
  void choose(const kernels::StepState* state, std::int64_t bound);

  kernels::Ops<T>* ops_;
  Target<T>* model_;
  RecordedChainOptions options_;
  kernels::DraftPasses passes_;
  kernels::OpsBuffer<T, kernels::StepCounts> counts_;               // [levels]
  kernels::OpsBuffer<T, std::int32_t> ints_;                        // the lists below, one block
  std::int32_t *pair_parent_ = nullptr, *root_parent_ = nullptr;    // [2], [1]
  std::int32_t *index_ = nullptr, *node_token_ = nullptr;           // [1]
  std::int32_t *slot_parent_ = nullptr, *slot_position_ = nullptr;  // [1 + levels]
  kernels::OpsBuffer<T, float> score_;                              // [1]
  kernels::OpsBuffer<T, kernels::SumOf<T>> perturbed_;              // [V], above temperature 0
  kernels::OpsBuffer<T, kernels::SumOf<T>> weights_;  // [layers, levels, stride], where it chooses
  std::int64_t stride_ = 0;
  std::optional<LayerChoice<T>> choice_;
};

}  // namespace versieve::engine
