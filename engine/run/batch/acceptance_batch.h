// Which path of each request's verified tree its target agrees with, and the token that follows:
// by the largest logit of each row, perturbed by its request's seed and temperature or not, or by
// the samplers that share no noise with the draft (engine/run/speculate/acceptance.h). All requests
// in one launch or few, after one upload; the host waits once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "engine/run/model/packed_ints.h"
#include "engine/run/speculate/acceptance.h"
#include "engine/run/speculate/sampler_call.h"
#include "kernels/samplers_together.h"
#include "model/words/draft_tree.h"

namespace versieve::engine {

// A request's tree, its root at `position`, and where its rows of logits begin.
template <class T>
struct VerifiedTree {
  const DraftTree* tree = nullptr;
  std::int64_t position = 0;
  std::int64_t first_row = 0;
  AcceptanceOptions options;          // gaps are not measured
  const T* sampled_logits = nullptr;  // [N - 1, V] or null (tree_source.h)
  // Above 0: whatever the target says, a path of that many nodes, or of the deepest.
  std::int64_t forced_yield = 0;
};

template <class T>
class AcceptanceBatch {
 public:
  explicit AcceptanceBatch(kernels::Ops<T>& ops) : ops_(&ops) {}

  // `logits` [rows, V]: those of the step. Waits for the device.
  std::vector<Acceptance> accept(const T* logits, std::int64_t rows, std::int64_t vocab,
                                 std::span<const VerifiedTree<T>> trees);

 private:
  using Sum = kernels::SumOf<T>;
  // The rows of logits of all trees.
  struct Rows {
    const T* logits = nullptr;
    std::int64_t rows = 0, vocab = 0;
  };
  // Where lists lie in the one upload.
  struct Places {
    std::int64_t draws = 0;                              // [rows], where some draw shared noise
    std::int64_t positions = 0;                          // [rows], likewise
    std::int64_t uniforms = 0, parents = 0, tokens = 0;  // of trees that are tested, one by one
  };

  static typename Acceptor<T>::Verified verified_of(const VerifiedTree<T>& tree, const Rows& rows);
  Places upload(const Rows& rows, std::span<const VerifiedTree<T>> trees);
  // Of each row, into the first answers.
  void list_best(const Rows& rows, std::span<const VerifiedTree<T>> trees, const Places& places);
  // Of each tree that is tested, behind those.
  void sample(const Rows& rows, std::span<const VerifiedTree<T>> trees, const Places& places);

  kernels::Ops<T>* ops_;
  kernels::OpsBuffer<T, std::int32_t> answers_;  // [rows], then answer_size of each tested tree
  kernels::OpsBuffer<T, Sum> tau_;               // [nodes of tested trees]
  DeviceInts<T> staged_;
  const std::int32_t* uploaded_ = nullptr;
};

}  // namespace versieve::engine
