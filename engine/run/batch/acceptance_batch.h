// Which path of each request's verified tree its target agrees with, and the token that follows:
// greedily of the argmaxes of all requests' rows, by each request's seed and temperature of logits
// perturbed by the noise that its draft shares, or by the samplers that share none, request by
// request (engine/run/speculate/acceptance.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "engine/run/speculate/acceptance.h"
#include "kernels/ops.h"
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
  explicit AcceptanceBatch(kernels::Ops<T>& ops) : ops_(&ops), acceptor_(ops) {}

  // `logits` [rows, V]: those of the step. Waits for the device.
  std::vector<Acceptance> accept(const T* logits, std::int64_t rows, std::int64_t vocab,
                                 std::span<const VerifiedTree<T>> trees);

 private:
  void list_draws(const T* logits, std::int64_t vocab, std::span<const VerifiedTree<T>> trees);
  // Of rows that are chosen by their largest, perturbed or not.
  std::vector<std::int32_t> best_of(const T* logits, std::int64_t rows, std::int64_t vocab,
                                    std::span<const VerifiedTree<T>> trees);

  kernels::Ops<T>* ops_;
  Acceptor<T> acceptor_;
  kernels::OpsBuffer<T, std::int32_t> best_;            // [rows]
  kernels::OpsBuffer<T, kernels::SumOf<T>> perturbed_;  // [nodes of a request, V]
  DeviceInts<T> positions_;
};

}  // namespace versieve::engine
