// How a target verifies a tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/ops.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Which tokens a token-level indexer reads beside the tree's nodes.
struct IndexSelection {
  std::int64_t chosen = 0;  // k, of those before the newest ones, by score
  std::int64_t newest = 0;  // w
  kernels::TopkVariant topk = kernels::TopkVariant::kGvr;

  std::int64_t tokens() const { return chosen + newest; }
  bool operator==(const IndexSelection&) const = default;
};

struct VerifyOptions {
  // One letter a layer; empty: all F. An R layer takes the newest F layer's blocks.
  std::string schedule;
  // Of nodes in the tree's order. Exact groups of any size give the bits of single queries.
  std::int64_t group_size = 1;
  GroupMode group_mode = GroupMode::kExact;
  bool last_logits_only = false;  // prefill: one row of logits, the last node's
  bool no_logits = false;         // prefill that goes on: none, where other sequences' follow
  // Planted fault for tests: attention does not see path-local compressed tokens.
  bool hide_tree_compressed = false;
  NsaForm form = NsaForm::kFused;
  // What ranks the blocks of the vanilla form; gvr begins with the newest committed token's blocks.
  kernels::TopkVariant topk = kernels::TopkVariant::kSort;
  // Dense targets: the tree is a chain (TreeAttentionParams::splits_chain). Chains that the host
  // made are seen as such without it.
  bool splits_chain = false;
  // The chain's rows are written anew and agree with no step's bits
  // (TreeAttentionParams::dense_pass).
  bool dense_pass = false;
  // A tree of one node of an NSA target runs its layers in one launch where the device has one
  // (Ops::decode_layers); false: launch by launch. No bit depends on it.
  bool one_launch = true;
  // A tree of one node attends the blocks that it selects. REQUIRES:
  // keep_choice_keys() or keep_block_keys().
  std::optional<kernels::ResaSelection> resa;
  // All nodes of a tree read the tokens that its root's query chooses. REQUIRES:
  // keep_choice_keys().
  std::optional<IndexSelection> index;
};

}  // namespace versieve::engine
