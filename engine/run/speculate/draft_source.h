// Trees grown by a draft: it takes what was committed, then level by level its best
// children (tree_growth.h), flattened in the strategy's traversal order. At a temperature above 0
// children are the best of logits perturbed by the noise that the target will share
// (kernels/gumbel_top); not coupled, they are the likeliest, and a chain is sampled from the
// draft's own distribution where draws_chain (model/words/strategy.h) says so.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "engine/run/speculate/drafter.h"
#include "engine/run/speculate/tree_growth.h"
#include "engine/run/speculate/tree_source.h"
#include "kernels/draft_tree/params.h"
#include "model/words/chain_length.h"

namespace versieve::engine {

// Whether a draft that takes so many positions (0: as many as the target) drafts for a root at that
// one. The longest tree decides, whatever the tuple's, so that a draft that falls silent stays so.
inline bool drafts_at(std::int64_t positions, std::int64_t root) {
  return positions == 0 || root + kernels::kMaxPathNodes <= positions;
}

struct DraftSourceOptions {
  DraftChoice choice;
  Traversal order = Traversal::kBfs;
  double temperature = 0.0;
  std::uint64_t seed = 0;
  // How the target chooses: at temperature 0 greedily, whatever is said. Where it tests a chain
  // that the draft drew (draws_chain), tokens that the draft cannot propose are never_proposed().
  SamplingAlgorithm sampling = SamplingAlgorithm::kCoupled;
  kernels::Truncation truncation = {};  // of a chain that is sampled
  bool adapts_length = false;           // of a chain (model/words/chain_length.h)
  // For timing with untrained weights: the j-th child counts as probability 2^-(j+1), which is the
  // tree a confident draft grows (model/words/draft_tree.h, synthetic_tree).
  bool scores_by_rank = false;
  std::int64_t target_vocab = 0;     // needed where a draft with a vocabulary of its own draws
  std::int64_t draft_positions = 0;  // drafts_at: beyond them it proposes the root alone
};

template <class T>
class DraftSource final : public TreeSource<T> {
 public:
  DraftSource(kernels::Ops<T>& ops, std::unique_ptr<Drafter<T>> drafter,
              const DraftSourceOptions& options);
  DraftSource(kernels::Ops<T>& ops, Draft<T>& draft, const DraftSourceOptions& options)
      : DraftSource(ops, std::make_unique<HeadDrafter<T>>(draft), options) {}

  void observe(const Observation<T>& observation) override;
  DraftTree propose(std::int64_t position, std::int32_t token) override;
  const T* sampled_logits() const override {
    return sampled_ && drafted_ ? chain_logits_.data() : nullptr;
  }

 private:
  void keep_chain_logits(std::int64_t index);
  void expand(TreeGrowth& growth, const std::vector<std::int32_t>& nodes);
  void list_children(const TreeGrowth& growth, const std::vector<std::int32_t>& nodes,
                     std::int64_t width);
  void run_nodes(const TreeGrowth& growth, const std::vector<std::int32_t>& nodes);
  DraftTree grow(std::int32_t token);
  DraftTree sample_chain(std::int32_t token);
  std::int32_t sample_token(std::int64_t index);

  kernels::Ops<T>* ops_;
  std::unique_ptr<Drafter<T>> draft_;
  DraftSourceOptions options_;
  bool sampled_ = false;  // chains are draws of the draft's own
  bool coupled_ = false;
  bool drafted_ = true;  // the last tree
  ChainLength length_;
  std::int64_t proposed_ = 0;  // tokens of the tree that was not observed yet
  Observation<T> pending_;
  std::int64_t position_ = 0;                         // of the root
  std::vector<std::int32_t> slots_;                   // of each candidate in the draft, -1: not run
  kernels::OpsBuffer<T, std::int32_t> top_index_;     // [width, width]
  kernels::OpsBuffer<T, float> top_score_;            // [width, width]
  kernels::OpsBuffer<T, std::int32_t> target_token_;  // [V], if it has its own vocabulary
  kernels::OpsBuffer<T, kernels::SumOf<T>> perturbed_;  // [width, V]
  DeviceInts<T> positions_;
  kernels::OpsBuffer<T> chain_logits_;  // [depth, V], V the target's
  std::int64_t chain_vocab_ = 0;        // V
  kernels::OpsBuffer<T, kernels::SumOf<T>> uniform_;
  kernels::OpsBuffer<T, kernels::SumOf<T>> tau_;
  kernels::OpsBuffer<T, std::int32_t> drawn_;  // accepted, token
};

}  // namespace versieve::engine
