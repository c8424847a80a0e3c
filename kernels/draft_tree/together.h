// A level of several trees grown side by side: draft_tree's growth, one tree a block of one launch.
// The trees' nodes are rows of one call of the draft; their roots are no slots.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/draft_tree/params.h"
#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#endif

namespace versieve::kernels {

// Children of a node that one thread each looks at: of a tree's level at most.
inline constexpr std::int64_t kMostLevelChildren = 512;

struct LevelGrowth {
  // index and log_probability: [frontier, stride], of which each node's first `branch` are read.
  // Slot level * W + i is node i of the next frontier, slot -1 the root; slot_parent and
  // slot_position have W rows a level. The state's counts are not read. Takes no passes.
  GrowTreeParams tree;
  std::int64_t stride = 0;
  std::int32_t root_position = 0;
  // Of the next frontier, beside tree.node_token: positions, and rows that `first_source` and the
  // place of the node's parent in the frontier give; `first_source` of padding.
  std::int32_t first_source = 0;
  std::int32_t* node_position = nullptr;  // [W]
  std::int32_t* node_source = nullptr;    // [W]
};

// At most kMostLevelChildren children.
inline bool grows_together(const DraftChoice& choice, std::int64_t branch) {
  return choice.nodes <= kMaxTreeNodes && choice.width <= kMaxTreeWidth &&
         choice.width * branch <= kMostLevelChildren;
}

// REQUIRES: grows_together.
void grow_level_cpu(const LevelGrowth& growth);
#ifdef VERSIEVE_HAS_CUDA
// Enqueues, never waits. REQUIRES: grows_together of each.
void launch_grow_levels(std::span<const LevelGrowth> trees, const LaunchContext& context);
#endif

}  // namespace versieve::kernels
