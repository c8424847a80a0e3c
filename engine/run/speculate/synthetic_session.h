// Whole speculative steps at a named geometry with random weights and contexts, for time and bytes:
// the draft grows the tree that a confident draft would, the target verifies it, acceptance runs,
// and a path of a given length is committed whatever it said. After each step the session is back
// at its context, so that a step can be repeated.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/run/model/synthetic.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/step.h"
#include "model/words/strategy.h"

namespace versieve::engine {

template <class T>
class SyntheticSession {
 public:
  SyntheticSession(kernels::Ops<T>& ops, const LlmShape& shape, std::uint64_t seed);

  // Contexts are filled once up to the longest asked for. REQUIRES: at least 1.
  void set_context(std::int64_t context_len);
  // `yield` tokens are committed, the target's own counted (1 without a draft); the draft takes as
  // many entries in before it grows. REQUIRES: set_context(at least yield + 1).
  StepResult step(const Strategy& strategy, std::int64_t yield, PhaseObserver* observer = nullptr,
                  bool measures_blocks = false);

  Target<T>& target() { return target_; }
  Draft<T>& draft() { return draft_; }

 private:
  kernels::Ops<T>* ops_;
  std::uint64_t seed_;
  DraftShape draft_shape_;
  Target<T> target_;
  Draft<T> draft_;
  StepRunner<T> runner_;
  kernels::OpsBuffer<T> captured_;  // [kLongestPath, 3 * hidden]: of the tokens before the root
  std::int64_t context_len_ = 0;
  std::int64_t filled_ = 0;
  Strategy strategy_;  // of source_
  std::unique_ptr<TreeSource<T>> source_;
};

}  // namespace versieve::engine
