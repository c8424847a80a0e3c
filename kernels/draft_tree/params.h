// A speculative step's tree in device memory: grown level by level from the draft's best tokens,
// finished into the arrays that the verifier takes, walked along the target's choices, and the
// walked path written into the cache. Between these launches nothing asks the host. Greedy only.
// Shapes: N nodes of the static tree, W children and frontier width, P nodes of the longest path,
// l tokens of a compression block. Exact semantics and tie rules: README.md of this folder.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/common/step_counts.h"
#include "model/words/llm_shape.h"
#include "model/words/strategy.h"

namespace versieve::kernels {

inline constexpr int kMaxTreeNodes = 256;
inline constexpr int kMaxTreeWidth = 64;
inline constexpr int kMaxPathNodes = 33;

// The best candidates so far, the root left out, in the order in which they were added: parents
// come before their children.
struct TreePool {
  std::int32_t count = 0;
  std::int32_t frontier_count = 0;
  std::int32_t frontier[kMaxTreeWidth] = {};      // their candidates, best first
  std::int32_t parent[kMaxTreeNodes - 1] = {};    // candidate, or -1: the root
  std::int32_t depth[kMaxTreeNodes - 1] = {};     // of the root: 0
  std::int32_t token[kMaxTreeNodes - 1] = {};     // target's vocabulary
  float log_probability[kMaxTreeNodes - 1] = {};  // of the node's path
};

// Everything that a step leaves for the next.
struct StepState {
  StepCounts counts;            // counts.context_len is the root's position
  std::int32_t root_token = 0;  // the newest token
  std::uint64_t seed = 0;       // of steps that sample (kernels/gumbel_top)
  std::int32_t steps = 0;       // steps accepted so far
  std::int32_t tree_nodes = 0;  // of the finished tree; its rows from here to N are padding
  TreePool pool;
  // The newest accepted path: its nodes, and its rows of the path-local compressed tokens.
  std::int32_t path_count = 0;
  std::int32_t path[kMaxPathNodes] = {};
  std::int32_t compressed_count = 0;
  std::int32_t compressed[kMaxPathNodes] = {};
  std::int32_t first_position = 0;    // of the path's root
  std::int32_t first_compressed = 0;  // committed compressed tokens before the path
};

// What the host reads of a step: the path's tokens without the root, then the target's own.
struct StepYield {
  std::int32_t count = 0;
  std::int32_t token[kMaxPathNodes] = {};
};
// Step i writes slot i % 2, so that one step may run while the one before it is read.
inline constexpr int kYieldSlots = 2;

// P: nodes of the longest path.
inline std::int64_t longest_path(const DraftChoice& choice) {
  return choice.levels() + 1;
}

// The passes of a draft model of its own over a chain, a level each: the first over the two newest
// tokens (the model may lack the row of the older one), each other over the node before it. Null:
// the draft is none.
struct DraftPasses {
  StepCounts* counts = nullptr;      // [levels]: context_len of each pass
  std::int32_t* token = nullptr;     // [2]: of the first pass, the newest last
  std::int32_t* position = nullptr;  // [2]
};

// Adds the children of level `level`'s frontier (level 0: the root) and names the next frontier.
// Rows of the frontier beyond its count are padding: children of the root without a token's sense.
struct GrowTreeParams {
  DraftChoice choice;                      // width W, nodes
  std::int64_t branch = 0;                 // children listed a node: min(W, the draft's vocabulary)
  std::int64_t level = 0;                  // of the expanded nodes
  bool scores_by_rank = false;             // child j counts as probability 2^-(j+1)
  const std::int32_t* index = nullptr;     // [frontier, branch]: draft tokens, best first
  const float* log_probability = nullptr;  // [frontier, branch]
  const std::int32_t* target_token = nullptr;  // [draft V], or null: the same vocabulary
  StepState* state = nullptr;
  // Slot 0 is the root, 1 + level * W + i node i of the next frontier.
  std::int32_t* node_token = nullptr;     // [W]: of the next frontier
  std::int32_t* slot_parent = nullptr;    // [1 + levels * W]: a slot, -1 for slot 0
  std::int32_t* slot_position = nullptr;  // [1 + levels * W]
  DraftPasses passes = {};                // counts of the next level's, where it is W = 1
};

// The kept candidates in traversal order, padded to N nodes with children of the root, and the
// compressed tokens that they complete (all of them; E goes to the state's counts).
struct FinishTreeParams {
  std::int64_t nodes = 1;  // N
  Traversal order = Traversal::kBfs;
  bool sparse = true;  // false: no compressed tokens
  std::int64_t cmp_block = 32, cmp_stride = 16;
  StepState* state = nullptr;
  std::int32_t* token = nullptr;     // [N]
  std::int32_t* parent = nullptr;    // [N]
  std::int32_t* position = nullptr;  // [N]
  std::int32_t* owner = nullptr;     // [N], the first E are set, ascending
  std::int32_t* block = nullptr;     // [N], the first E are set
  std::int32_t* source = nullptr;    // [N, l], the first E rows are set (CompressParams::source)
};

// The longest path whose tokens are the target's choices, and what follows from it: the yield, the
// rows to commit, the entries that the draft takes in. L grows by the path.
struct AcceptTreeParams {
  std::int64_t nodes = 1;     // N
  std::int64_t max_path = 1;  // P
  bool sparse = true;
  std::int64_t cmp_block = 32, cmp_stride = 16;
  // Above 0, for timing: whatever the target says, the first path of that many nodes (or of the
  // deepest node).
  std::int64_t forced_yield = 0;
  // The same, by the root's position: an entry above 0 is that step's forced yield, 0 leaves it to
  // the target. Null: forced_yield alone.
  const std::int32_t* forced_at = nullptr;  // [positions]
  const std::int32_t* choice = nullptr;     // [N]: the target's greedy token after each node
  const std::int32_t* token = nullptr;      // [N]
  const std::int32_t* parent = nullptr;     // [N]
  const std::int32_t* position = nullptr;   // [N]
  const std::int32_t* owner = nullptr;      // [E]
  StepState* state = nullptr;
  StepYield* yield = nullptr;  // [kYieldSlots], memory that the host reads
  // Row 0 is the newest token, at the new L; rows 1 ... count - 1 the older tokens of the path,
  // oldest first; the rest are padding, at positions beyond it.
  std::int32_t* entry_token = nullptr;     // [P]
  std::int32_t* entry_row = nullptr;       // [P]: node whose captured streams the entry takes
  std::int32_t* entry_position = nullptr;  // [P]
  DraftPasses passes = {};                 // the next step's first
};

// Copies the path's rows from the tree's buffers to the caches of all layers. A null source: that
// kind is not kept.
template <class T>
struct CommitPathParams {
  std::int64_t max_path = 1;  // P
  std::int64_t layers = 0;
  std::int64_t width = 0;            // G*d
  std::int64_t tree_rows = 0;        // rows between two layers of the tree's buffers
  std::int64_t cache_rows = 0;       // of k, v, k_raw
  std::int64_t compressed_rows = 0;  // of k_cmp, v_cmp
  const StepState* state = nullptr;
  const T* k_tree = nullptr;  // [layers, tree_rows, G, d], as all sources
  const T* v_tree = nullptr;
  const T* k_raw_tree = nullptr;  // or null
  const T* k_cmp_tree = nullptr;  // or null
  const T* v_cmp_tree = nullptr;  // or null
  T* k = nullptr;                 // [layers, cache_rows, G, d]
  T* v = nullptr;
  T* k_raw = nullptr;
  T* k_cmp = nullptr;  // [layers, compressed_rows, G, d]
  T* v_cmp = nullptr;
};

}  // namespace versieve::kernels
