// Draft trees of several requests grown side by side: level by level the draft head runs the nodes
// of all in one call, and each request's tree is the one that it would grow alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "engine/run/model/draft.h"
#include "engine/run/speculate/tree_growth.h"
#include "model/words/draft_tree.h"
#include "model/words/strategy.h"

namespace versieve::engine {

struct WantedTree {
  DraftChoice choice;
  Traversal order = Traversal::kBfs;
  double temperature = 0.0;  // above 0: of draws that share the target's noise
  std::uint64_t seed = 0;
  std::int32_t token = 0;       // of the root
  std::int64_t position = 0;    // of the root
  bool scores_by_rank = false;  // DraftSourceOptions
};

// Nodes of a tree that the draft runs at most, 1 at least: Draft::BatchEntries::slots.
std::int64_t draft_slots(const DraftChoice& choice);

template <class T>
class TreeBatch {
 public:
  TreeBatch(kernels::Ops<T>& ops, Draft<T>& draft) : ops_(&ops), draft_(&draft) {}

  // A tree for each, in its traversal order. REQUIRES: the draft's last extend_batch read out as
  // many sequences, in this order, with draft_slots() each.
  std::vector<DraftTree> grow(const typename Draft<T>::SharedEntries& entries,
                              std::span<const WantedTree> wanted);

 private:
  // A tree that has nodes to expand: their rows of the draft's logits follow those of the tree
  // before it.
  struct Growing {
    const WantedTree* wanted = nullptr;
    TreeGrowth growth;
    std::vector<std::int32_t> nodes;  // whose logits the draft holds
    std::vector<std::int32_t> slots;  // of each candidate in the draft, -1: not run
    std::int32_t next_slot = 0;
    std::size_t sequence = 0;
  };

  void list_children(const std::vector<Growing*>& level, std::int64_t width);
  void expand(const std::vector<Growing*>& level);
  void run_nodes(const typename Draft<T>::SharedEntries& entries,
                 const std::vector<Growing*>& level);

  kernels::Ops<T>* ops_;
  Draft<T>* draft_;
  kernels::OpsBuffer<T, std::int32_t> target_token_;    // [V], if it has its own vocabulary
  kernels::OpsBuffer<T, std::int32_t> index_;           // [rows, width]
  kernels::OpsBuffer<T, float> score_;                  // [rows, width]
  kernels::OpsBuffer<T, kernels::SumOf<T>> perturbed_;  // [rows of a request, V]
  DeviceInts<T> positions_;
};

}  // namespace versieve::engine
