// Which path of each request's verified tree its target agrees with, and the token that follows:
// greedily of the argmaxes of all requests' rows, or by each request's seed and temperature of
// logits perturbed by the noise that its draft shares (engine/run/speculate/acceptance.h).
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
struct VerifiedTree {
  const DraftTree* tree = nullptr;
  std::int64_t position = 0;
  std::int64_t first_row = 0;
  double temperature = 0.0;
  std::uint64_t seed = 0;
  // Above 0: whatever the target says, a path of that many nodes, or of the deepest.
  std::int64_t forced_yield = 0;
};

template <class T>
class AcceptanceBatch {
 public:
  explicit AcceptanceBatch(kernels::Ops<T>& ops) : ops_(&ops) {}

  // `logits` [rows, V]: those of the step. Waits for the device.
  std::vector<Acceptance> accept(const T* logits, std::int64_t rows, std::int64_t vocab,
                                 std::span<const VerifiedTree> trees);

 private:
  void list_draws(const T* logits, std::int64_t vocab, std::span<const VerifiedTree> trees);

  kernels::Ops<T>* ops_;
  kernels::OpsBuffer<T, std::int32_t> best_;            // [rows]
  kernels::OpsBuffer<T, kernels::SumOf<T>> perturbed_;  // [nodes of a request, V]
  DeviceInts<T> positions_;
};

}  // namespace versieve::engine
