// Which path of a verified tree the target agrees with, and the token that follows it: at
// temperature 0 the longest path of argmaxes (the lowest index among equals); above it the same of
// logits perturbed by noise that the draft shares (kernels/gumbel_top), or, where asked for, the
// samplers of kernels/spec_sample (chains sampled by the draft) and kernels/tree_sample (all else).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "kernels/ops.h"
#include "model/words/draft_tree.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct Acceptance {
  std::vector<std::int32_t> path;  // accepted nodes, the root first
  std::int32_t next_token = 0;     // the target's own token after the last of them
  // If asked for, of greedy and coupled choices: (perturbed) logit of next_token less that of the
  // runner-up.
  float logit_gap = 0.0F;

  // Tokens that the step yields, next_token counted.
  std::int64_t yield() const { return static_cast<std::int64_t>(path.size()); }
};

struct AcceptanceOptions {
  double temperature = 0.0;
  std::uint64_t seed = 0;
  bool measures_gap = false;
  // Above temperature 0. Coupled: each place's token is the one that plain decoding of that seed
  // draws there. Baseline and exact decide alike; sigmoid is lossy and for chains alone.
  SamplingAlgorithm sampling = SamplingAlgorithm::kCoupled;
  kernels::Truncation truncation = {};  // not coupled: of the target's rows, and a chain's draft's
  kernels::SigmoidEnds sigmoid = {};
};

// The longest path of nodes that are their parent's best token, `best` [N] being each node's.
Acceptance follow(const DraftTree& tree, std::span<const std::int32_t> best);
// The first path of `yield` nodes, or of the deepest that there is.
std::vector<std::int32_t> path_of_yield(const DraftTree& tree, std::int64_t yield);

// Above temperature 0.
inline bool samples_coupled(const Strategy& strategy) {
  return strategy.sampling.value_or(SamplingAlgorithm::kCoupled) == SamplingAlgorithm::kCoupled;
}

template <class T>
class Acceptor {
 public:
  explicit Acceptor(kernels::Ops<T>& ops) : ops_(&ops) {}

  // `tree` with its root at `position` and the target's `logits` after each node.
  struct Verified {
    const DraftTree& tree;
    std::int64_t position = 0;
    std::int64_t vocab = 0;
    const T* logits = nullptr;          // [N, V]
    const T* sampled_logits = nullptr;  // [N - 1, V] or null (tree_source.h)
  };
  Acceptance accept(const Verified& verified, const AcceptanceOptions& options);

 private:
  using Sum = kernels::SumOf<T>;

  void list_best(const Verified& verified, const AcceptanceOptions& options, std::int64_t count);
  Acceptance follow_best(const Verified& verified, const AcceptanceOptions& options);
  Acceptance sample(const Verified& verified, const AcceptanceOptions& options);

  kernels::Ops<T>* ops_;
  kernels::OpsBuffer<T, std::int32_t> ints_;
  kernels::OpsBuffer<T, float> scores_;
  kernels::OpsBuffer<T, Sum> perturbed_;  // [N, V]
  kernels::OpsBuffer<T, Sum> tau_;
  DeviceInts<T> staged_;
};

}  // namespace versieve::engine
