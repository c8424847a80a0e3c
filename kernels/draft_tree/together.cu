#include "kernels/draft_tree/together.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/draft_tree/grow.cuh"
#include "model/launches/draft_tree.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

static_assert(kMostLevelChildren == kEarlyChildren);
constexpr std::size_t kMostTrees = 128;
struct LevelGrowths {
  LevelGrowth tree[kMostTrees];
  bool grows[kMostTrees];  // there is a level after this one
};
static_assert(sizeof(LevelGrowths) <= 32764);  // of a kernel's parameters

// A node of the next frontier, or what fills its place.
__device__ inline void write_node(const LevelGrowth& growth, int place, int token, int parent_slot,
                                  int source, int depth) {
  const GrowTreeParams& p = growth.tree;
  const int slot = static_cast<int>(p.level * p.choice.width) + place;
  const int position = growth.root_position + depth;
  p.node_token[place] = token;
  p.slot_parent[slot] = parent_slot;
  p.slot_position[slot] = position;
  growth.node_position[place] = position;
  growth.node_source[place] = growth.first_source + source;
}

// Grid: tree.
__global__ void __launch_bounds__(kGrowThreads)
    grow_levels_kernel(const __grid_constant__ LevelGrowths growths, float log_half) {
  __shared__ GrowShared s;
  release_successors();
  const LevelGrowth& growth = growths.tree[blockIdx.x];
  const GrowTreeParams& p = growth.tree;
  const ChildPlaces places(p);
  wait_for_predecessors();
  EarlyPool early = read_pool(p, s);
  const int level = static_cast<int>(p.level);
  const int width = static_cast<int>(p.choice.width);
  const int i = static_cast<int>(threadIdx.x);
  if (i < (level == 0 ? 1 : width) * static_cast<int>(p.branch)) {
    const std::int64_t at = places.parent(i) * growth.stride + places.rank(i);
    early.child_score = p.scores_by_rank ? 0.0F : p.log_probability[at];
    s.child_token[i] = p.index[at];
  }
  growing_sync();
  const bool grows = growths.grows[blockIdx.x];
  grow(
      p, places, s, early, log_half, grows,
      [&](int place, int token, int parent) {
        const int source = level == 0 ? 0 : parent;
        write_node(growth, place, token, level == 0 ? -1 : (level - 1) * width + parent, source,
                   level + 1);
      },
      [&](int place) { write_node(growth, place, 0, -1, 0, 1); });
}

}  // namespace

void launch_grow_levels(std::span<const LevelGrowth> trees, const LaunchContext& context) {
  for (std::size_t first = 0; first < trees.size(); first += kMostTrees) {
    const std::span<const LevelGrowth> some =
        trees.subspan(first, std::min(kMostTrees, trees.size() - first));
    LevelGrowths growths{};
    Traffic traffic;
    for (std::size_t i = 0; i < some.size(); ++i) {
      const GrowTreeParams& p = some[i].tree;
      VERSIEVE_ASSERT(grows_together(p.choice, p.branch), "a tree's level has few children");
      growths.tree[i] = some[i];
      growths.grows[i] = p.level + 1 < p.choice.levels();
      traffic += traffic::grow_tree(p.choice.nodes, (p.level == 0 ? 1 : p.choice.width) * p.branch);
    }
    const LaunchRange range("grow_tree", traffic, context.observer);
    launch_dependent({.grid = dim3(static_cast<unsigned>(some.size())),
                      .threads = kGrowThreads,
                      .stream = context.stream},
                     grow_levels_kernel, growths, -std::log(2.0F));
    check(cudaGetLastError());
  }
}

}  // namespace versieve::kernels
