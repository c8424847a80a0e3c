// A target, its draft and a prompt in their caches: where every run of a request begins, whoever
// leads its steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/run/model/draft.h"
#include "engine/run/model/target.h"
#include "engine/run/speculate/generation.h"
#include "engine/run/speculate/rectify.h"
#include "engine/run/speculate/step.h"
#include "model/words/strategy.h"

namespace versieve::engine {

inline constexpr std::int64_t kDeepestTree = 33;  // nodes of the longest path

template <class T>
class Prefilled {
 public:
  // A draft head, or a draft model of its own, or neither. All outlive this.
  Prefilled(kernels::Ops<T>& ops, Target<T>& target, Draft<T>* draft, Target<T>* draft_model);

  kernels::Ops<T>& ops() const { return *ops_; }
  Target<T>& target() const { return *target_; }
  Draft<T>* draft() const { return draft_; }               // or null
  Target<T>* draft_model() const { return draft_model_; }  // or null
  StepRunner<T>& steps() { return steps_; }
  // The draft's, where they are fewer than the target's; else 0.
  std::int64_t draft_positions() const;

  // Begins a new sequence, chunk by chunk. Always with every layer refreshing. REQUIRES: not empty.
  // Throws Error(kBadInput) for a prompt longer than the model takes.
  void prefill(std::span<const std::int32_t> prompt);
  double seconds() const { return seconds_; }  // of the last prefill
  std::int64_t length() const { return static_cast<std::int64_t>(prompt_.size()); }
  const std::vector<std::int32_t>& prompt() const { return prompt_; }
  const T* last_captured() const { return last_captured_.data(); }  // [3 * hidden]

  // Tokens that a run may add.
  std::int64_t token_limit(const GenerateOptions& options) const;
  StepOptions step_options(const GenerateOptions& options) const;
  // Of the tuple's steps under synthetic acceptance, by where the root stands behind the prompt:
  // those of a run. Empty where the target decides.
  std::vector<std::int32_t> forced_yields(const GenerateOptions& options) const;
  // Of the next step that the host leads; 0: the target decides.
  std::int64_t forced_yield(const std::vector<std::int32_t>& forced_yields) const;
  // Puts the token that prefill's logits give into the run; true when it ends the run.
  bool begin_run(const GenerateOptions& options, Generation& run);
  // Caches back to the prompt's end.
  void rewind_caches();
  // The same, and the source learns that `first_token` was chosen to follow.
  void rewind(TreeSource<T>& source, std::int32_t first_token);
  // Of the strategy's draft; `text`: all tokens so far, which a draft model reads.
  std::unique_ptr<TreeSource<T>> make_source(const GenerateOptions& options,
                                             std::vector<std::int32_t> text);
  // The keys of the prompt that the strategy's steps choose by, those of an earlier run dropped;
  // and for ReSA who rectifies. One that drafts for itself verifies in that place.
  std::optional<Rectifier<T>> make_rectifier(const Strategy& strategy);
  // Counts a committed token; its dense pass, where one is due, goes to the run's times.
  void rectify(Rectifier<T>& rectifier, std::int32_t token, Generation& run);

 private:
  void feed_draft(std::int64_t begin, std::int64_t end);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  Draft<T>* draft_;
  Target<T>* draft_model_;
  StepRunner<T> steps_;
  std::vector<std::int32_t> prompt_;
  double seconds_ = 0.0;
  kernels::OpsBuffer<T> last_logits_;    // [V]: after the prompt
  kernels::OpsBuffer<T> last_captured_;  // [3 * hidden]: of the prompt's last token
};

}  // namespace versieve::engine
