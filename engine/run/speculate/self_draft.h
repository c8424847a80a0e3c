// Self-speculation (Rectified Sparse Attention, appendix B; MagicDec, TriForce): the target drafts
// for itself, token by token over blocks that it chooses, and verifies the chain by one dense pass.
// The drafted rows are dropped before that pass, which writes them anew: what is committed is what
// dense decoding writes, so the text is that of dense decoding.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/run/model/target.h"
#include "engine/run/speculate/device_step.h"
#include "engine/run/speculate/draft_source.h"
#include "engine/run/speculate/drafter.h"
#include "engine/run/speculate/tree_source.h"

namespace versieve::engine {

// A chain of the target's own steps, appended to its cache.
template <class T>
class SelfDrafter final : public Drafter<T> {
 public:
  // `sparse`: how the steps attend. The target keeps block keys of its size and outlives this.
  SelfDrafter(Target<T>& target, const VerifyOptions& sparse) : target_(&target), sparse_(sparse) {}

  void begin(std::int64_t position, const Observation<T>& observation) override;
  void step(const typename Drafter<T>::Nodes& nodes) override;
  const T* logits() const override { return target_->logits(); }
  std::int64_t vocab() const override { return target_->shape().vocab; }

 private:
  void run(std::int32_t token);

  Target<T>* target_;
  VerifyOptions sparse_;
};

// Chains that the host leads; the cache then ends before the root again.
template <class T>
class SelfSource final : public TreeSource<T> {
 public:
  // As SelfDrafter.
  SelfSource(kernels::Ops<T>& ops, Target<T>& target, const VerifyOptions& sparse,
             const DraftSourceOptions& options);

  void observe(const Observation<T>& observation) override { chains_.observe(observation); }
  DraftTree propose(std::int64_t position, std::int32_t token) override;
  const T* sampled_logits() const override { return chains_.sampled_logits(); }

 private:
  Target<T>* target_;
  DraftSource<T> chains_;
};

// The same by recorded steps: greedy ones, or ones that share the target's noise.
template <class T>
class RecordedSelfSource final : public TreeSource<T> {
 public:
  // `steps`: plain ones over chosen blocks, begun at `start` and moved on from there. All outlive
  // this.
  RecordedSelfSource(Target<T>& target, DeviceStepRunner<T>& steps,
                     typename DeviceStepRunner<T>::Start start, std::int64_t drafted)
      : target_(&target), steps_(&steps), start_(start), drafted_(drafted) {}

  DraftTree propose(std::int64_t position, std::int32_t token) override;

 private:
  Target<T>* target_;
  DeviceStepRunner<T>* steps_;
  typename DeviceStepRunner<T>::Start start_;
  std::int64_t drafted_;  // tokens of a chain
};

}  // namespace versieve::engine
