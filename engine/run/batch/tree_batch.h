// Draft trees of several requests grown side by side: level by level the drafter runs the nodes of
// all in one call, and each request's tree is the one that it would grow alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/batch/batch_drafter.h"
#include "engine/run/model/device_ints.h"
#include "engine/run/model/packed_ints.h"
#include "engine/run/speculate/tree_growth.h"
#include "kernels/ops_together.h"
#include "kernels/samplers_together.h"
#include "model/words/draft_tree.h"
#include "model/words/strategy.h"

namespace versieve::engine {

template <class T>
struct WantedTree {
  DraftChoice choice;
  Traversal order = Traversal::kBfs;
  double temperature = 0.0;  // of draws; 0: the likeliest tokens
  std::uint64_t seed = 0;
  std::int32_t token = 0;       // of the root
  std::int64_t position = 0;    // of the root
  bool scores_by_rank = false;  // DraftSourceOptions
  // [levels, V of the target], or null: above temperature 0 trees are of draws that share the
  // target's noise. Not null: a chain is drawn from the draft's own law, whose logits go there;
  // those of tokens that the draft does not propose stay as they are.
  T* chain_logits = nullptr;
  std::int64_t chain_vocab = 0;
  kernels::Truncation truncation = {};  // of that law

  bool is_coupled() const { return temperature > 0.0 && chain_logits == nullptr; }
};

// Nodes of a tree that the draft runs at most, 1 at least: Draft::BatchEntries::slots.
std::int64_t draft_slots(const DraftChoice& choice);

template <class T>
class TreeBatch {
 public:
  TreeBatch(kernels::Ops<T>& ops, BatchDrafter<T>& draft)
      : ops_(&ops), draft_(&draft), own_tokens_(draft.target_tokens()) {}

  // A tree for each, in its traversal order. Where the draft takes levels and no chain is drawn
  // from the draft's law all of them are enqueued, and the host waits once; else level by level.
  // REQUIRES: the drafter's logits() are those of as many roots, in this order; of a head's with
  // draft_slots() each.
  std::vector<DraftTree> grow(std::span<const WantedTree<T>> wanted);

 private:
  // A tree that has nodes to expand: their rows of the draft's logits follow those of the tree
  // before it.
  struct Growing {
    const WantedTree<T>* wanted = nullptr;
    TreeGrowth growth;
    std::vector<std::int32_t> nodes;  // whose logits the draft holds
    std::vector<std::int32_t> slots;  // of each candidate in the draft, -1: not run
    std::int32_t next_slot = 0;
    std::size_t sequence = 0;
    std::int64_t first_row = 0;  // of the nodes' rows
  };

  std::int64_t branch_of(const WantedTree<T>& tree) const {  // children listed of a node
    return std::min(tree.choice.width, draft_->vocab());
  }

  // Level by level, the host choosing (tree_batch.cpp).
  std::vector<DraftTree> grow_by_host(std::span<const WantedTree<T>> wanted);
  void list_children(const std::vector<Growing*>& level, std::int64_t rows, std::int64_t width);
  void list_rows(std::span<const kernels::RowDraw> draws, const kernels::RowDraw* uploaded,
                 const std::int32_t* position, std::int64_t width);
  static kernels::RowDraw draw_of(const WantedTree<T>& tree);
  // A token drawn for each chain of the level that is drawn, in order, and its law kept.
  std::vector<std::int32_t> draw_tokens(const std::vector<Growing*>& level);
  void keep_law(const Growing& tree);
  const std::int32_t* target_token();
  void expand(const std::vector<Growing*>& level);
  void run_nodes(const std::vector<Growing*>& level);

  // Where the draft runs, without the host (tree_levels.cpp).
  struct Level;
  bool grows_by_levels(std::span<const WantedTree<T>> wanted) const;
  std::vector<DraftTree> grow_levels(std::span<const WantedTree<T>> wanted);
  void make_room(std::span<const WantedTree<T>> wanted);
  void upload_roots(const std::vector<std::int32_t>& roots);
  void list_level(const std::vector<Level>& level, std::int64_t number, std::int64_t width,
                  const std::int32_t* position);
  void grow_level(std::span<const WantedTree<T>> wanted, const std::vector<Level>& level,
                  std::int64_t number, std::int64_t width, std::int64_t outputs);
  void run_level(const std::vector<Level>& level, std::int64_t number);
  std::vector<DraftTree> grown_trees(std::span<const WantedTree<T>> wanted) const;

  kernels::Ops<T>* ops_;
  BatchDrafter<T>* draft_;
  std::vector<std::int32_t> own_tokens_;                // of a vocabulary of its own
  kernels::OpsBuffer<T, std::int32_t> target_token_;    // [V], of a vocabulary of its own
  kernels::OpsBuffer<T, std::int32_t> index_;           // [rows, width]
  kernels::OpsBuffer<T, float> score_;                  // [rows, width]
  kernels::OpsBuffer<T, kernels::SumOf<T>> perturbed_;  // [rows of a level, V]
  DeviceInts<T> positions_;
  DeviceInts<T> uniforms_;  // [chains that are drawn], as numbers
  kernels::OpsBuffer<T, kernels::SumOf<T>> tau_;
  kernels::OpsBuffer<T, std::int32_t> drawn_;  // [chains, 2]: accepted, token

  using Ints = kernels::OpsBuffer<T, std::int32_t>;
  kernels::OpsBuffer<T, kernels::StepState> states_;        // of each tree, for its pool
  Ints node_token_, node_position_, node_source_;           // [rows]: frontiers, tree after tree
  Ints slot_parent_, slot_position_;                        // slots, tree after tree
  Ints slot_number_;                                        // 0, 1, ...
  std::vector<std::int64_t> first_slot_;                    // of each tree
  std::vector<std::vector<kernels::RowDraw>> level_draws_;  // of each level's rows
  std::vector<const kernels::RowDraw*> uploaded_draws_;     // likewise, in positions_
  const std::int32_t* root_position_ = nullptr;             // [trees], in positions_
};

}  // namespace versieve::engine
