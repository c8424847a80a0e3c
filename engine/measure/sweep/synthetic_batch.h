// Many requests of a geometry with random weights in one batched session, each with a context of
// its own that nobody prefilled: what a step of them takes. Of a request's step with a draft a
// given number of tokens is committed, whatever the untrained target says.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/run/batch/batch_session.h"
#include "engine/run/speculate/block_statistics.h"
#include "kernels/ops.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// As a step of one request commits (step_point.h), where its tree is as deep.
inline constexpr std::int64_t kBatchYield = 4;

// What the requests of a batch are.
struct BatchAsked {
  Strategy strategy;
  std::span<const std::int64_t> contexts;  // of each request
  std::int64_t yield = kBatchYield;        // tokens of a step with a draft
  std::int64_t steps = 1;                  // that they have room for
  double temperature = 0.0;                // each request has a seed of its own
};

// The geometry by its name, of a dense strategy with dense attention.
LlmShape batch_shape(const std::string& geometry, const Strategy& strategy);
// Why the batched engine does not run such a strategy on a geometry, or an empty text.
std::string unbatched_because(const Strategy& strategy, const LlmShape& shape);

template <class T>
class SyntheticBatch {
 public:
  // `alike`: make_synthetic_target's.
  SyntheticBatch(kernels::Ops<T>& ops, const LlmShape& shape, bool on_gpu, std::uint64_t seed,
                 double alike = 0.0);

  const LlmShape& shape() const { return shape_; }
  const DraftShape& draft_shape() const { return draft_shape_; }
  // Begins anew, its first step still to come. Why it cannot (no memory), or an empty text.
  // REQUIRES: unbatched_because is empty.
  std::string begin(const BatchAsked& asked);
  // Whether steps are recorded and replayed, whose launches nobody can watch (at first they are).
  void set_records(bool records);
  void step();  // REQUIRES: begun, and steps are left
  std::int64_t steps_left() const { return left_; }
  // What the nodes of the first request's tree chose in the last step, the mean over layers.
  // REQUIRES: a step of NSA was made.
  BlockStatistics chosen_blocks() const;
  const SessionSeconds& seconds() const { return session_->seconds(); }
  void end() { session_.reset(); }

 private:
  void copy_context(const KvCache<T>& from, KvCache<T>& to, std::int64_t tokens);
  std::string make_session(const BatchAsked& asked);

  kernels::Ops<T>* ops_;
  bool on_gpu_;
  std::uint64_t seed_;
  LlmShape shape_;
  DraftShape draft_shape_;
  Target<T> target_;
  Draft<T> draft_;
  std::unique_ptr<BatchSession<T>> session_;
  std::int64_t left_ = 0;
  std::int64_t nodes_ = 1;  // of a request's tree
  bool records_ = true;
};

extern template class SyntheticBatch<double>;
extern template class SyntheticBatch<float>;
extern template class SyntheticBatch<Bf16>;

}  // namespace versieve::engine
