// The caches of a target and of what drafts for it, holding the beginning of a text exactly, as
// prefill leaves them. What the next text has in common with the last is not computed again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/draft.h"
#include "engine/run/model/target.h"
#include "engine/run/speculate/tree_source.h"

namespace versieve::engine {

// Exactly the target's own draft, or none: a head on its streams, or a model of its own.
template <class T>
struct TextDraft {
  Draft<T>* head = nullptr;
  Target<T>* model = nullptr;

  // The greatest text that it takes, or 0 without one.
  std::int64_t positions() const {
    return head != nullptr    ? head->shape().max_position
           : model != nullptr ? model->shape().max_position
                              : 0;
  }
};

template <class T>
class HeldPrefix {
 public:
  // All outlive this.
  HeldPrefix(kernels::Ops<T>& ops, Target<T>& target, const TextDraft<T>& draft)
      : ops_(&ops), target_(&target), draft_(draft) {}

  // Target and head hold these tokens and no others. REQUIRES: not empty.
  void hold(std::span<const std::int32_t> tokens);
  // So does the draft model. REQUIRES: there is one.
  void hold_by_model(std::span<const std::int32_t> tokens);
  // Forgets what was appended to the caches since.
  void rewind();
  // What a head knows before a root that `next` is. REQUIRES: nothing was appended since hold().
  Observation<T> before(std::int32_t next) const;

  std::int64_t tokens_run() const { return tokens_run_; }  // by the target

 private:
  void feed_head(std::span<const std::int32_t> tokens, std::size_t begin, std::size_t end);
  void keep_newest(std::int64_t row);

  kernels::Ops<T>* ops_;
  Target<T>* target_;
  TextDraft<T> draft_;
  std::vector<std::int32_t> held_, model_held_;
  kernels::OpsBuffer<T> newest_;  // [3 * hidden]: streams of the last token held, for a head
  std::int64_t tokens_run_ = 0;
};

}  // namespace versieve::engine
