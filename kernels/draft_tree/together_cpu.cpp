#include <vector>

#include "kernels/cpu.h"
#include "kernels/draft_tree/together.h"
#include "model/words/assert.h"

namespace versieve::kernels {

// By grow_tree, whose slots begin with the root.
void grow_level_cpu(const LevelGrowth& growth) {
  GrowTreeParams p = growth.tree;
  VERSIEVE_ASSERT(grows_together(p.choice, p.branch), "a tree's level has few children");
  const std::int64_t width = p.choice.width;
  const std::int64_t expanded = p.level == 0 ? 1 : p.state->pool.frontier_count;
  std::vector<std::int32_t> index;
  std::vector<float> log_probability;
  for (std::int64_t node = 0; node < expanded; ++node) {
    const std::int64_t first = node * growth.stride;
    index.insert(index.end(), p.index + first, p.index + first + p.branch);
    log_probability.insert(log_probability.end(), p.log_probability + first,
                           p.log_probability + first + p.branch);
  }
  const std::size_t slots = static_cast<std::size_t>(1 + (p.level + 1) * width);
  std::vector<std::int32_t> parent(slots, -1), position(slots, 0);
  p.index = index.data();
  p.log_probability = log_probability.data();
  p.slot_parent = parent.data();
  p.slot_position = position.data();
  p.state->counts.context_len = growth.root_position;
  grow_tree_cpu(p);
  if (p.level + 1 == p.choice.levels()) {
    return;
  }
  const std::int64_t before = p.level == 0 ? 0 : 1 + (p.level - 1) * width;  // this level's slots
  for (std::int64_t i = 0; i < width; ++i) {
    const std::int64_t slot = p.level * width + i;
    const std::int32_t from = parent[static_cast<std::size_t>(slot + 1)];
    const bool padding = i >= p.state->pool.frontier_count;
    growth.tree.slot_parent[slot] = from - 1;
    growth.tree.slot_position[slot] = position[static_cast<std::size_t>(slot + 1)];
    growth.node_position[i] = growth.tree.slot_position[slot];
    growth.node_source[i] =
        growth.first_source + (padding ? 0 : from - static_cast<std::int32_t>(before));
  }
}

}  // namespace versieve::kernels
