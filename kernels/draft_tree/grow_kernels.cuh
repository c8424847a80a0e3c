// Growth as launches of one block: of children that a launch before listed, or listed here.
#pragma once

#include "kernels/common/dependent_launch.cuh"
#include "kernels/draft_tree/grow.cuh"
#include "kernels/top_logits/short_rows.cuh"

namespace versieve::kernels {

__device__ inline void write_slot(const GrowTreeParams& p, int context_len, int place, int token,
                                  int parent_slot, int depth) {
  const int slot = 1 + static_cast<int>(p.level * p.choice.width) + place;
  p.node_token[place] = token;
  p.slot_parent[slot] = parent_slot;
  p.slot_position[slot] = context_len + depth;
}

// Growth with the next frontier as slots in memory.
__device__ inline void grow_slots(const GrowTreeParams& p, const ChildPlaces& places, GrowShared& s,
                                  const EarlyPool& early, float log_half, bool grows) {
  const int level = static_cast<int>(p.level);
  const int first = 1 + (level - 1) * static_cast<int>(p.choice.width);  // slot of this level
  grow(
      p, places, s, early, log_half, grows,
      [&](int next, int token, int parent) {
        write_slot(p, early.context_len, next, token, level == 0 ? 0 : first + parent, level + 1);
      },
      [&](int next) { write_slot(p, early.context_len, next, 0, 0, 1); });
  if (threadIdx.x == 0 && level == 0 && grows) {
    p.slot_parent[0] = -1;
    p.slot_position[0] = early.context_len;
  }
  if (threadIdx.x == 0 && grows && p.passes.counts != nullptr) {
    p.passes.counts[level + 1].context_len = early.context_len + level + 1;
  }
}

__global__ void __launch_bounds__(kGrowThreads)
    grow_tree_kernel(const __grid_constant__ GrowTreeParams p, float log_half, bool grows) {
  __shared__ GrowShared s;
  release_successors();
  const ChildPlaces places(p);
  wait_for_predecessors();
  const EarlyPool early = read_early(p, s);
  growing_sync();
  grow_slots(p, places, s, early, log_half, grows);
}

// The children listed here, a warp a row of short logits: a launch less a level. `top`: p's index
// and log-probabilities, which nobody else reads and which are not written.
template <class T, int kOwn>
__global__ void __launch_bounds__(kGrowThreads)
    grow_listed_kernel(const __grid_constant__ TopLogitsParams<T> top,
                       const __grid_constant__ GrowTreeParams p, float log_half, bool grows) {
  __shared__ GrowShared s;
  __shared__ float child_score[kEarlyChildren];
  release_successors();
  const ChildPlaces places(p);
  wait_for_predecessors();
  EarlyPool early = read_pool(p, s);
  const int k = static_cast<int>(top.k);
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / 32; row < top.rows; row += kGrowThreads / 32) {
    list_short_row<T, kOwn>(top, row, [&](int place, int index, float log_probability) {
      s.child_token[row * k + place] = index;
      child_score[row * k + place] = log_probability;
    });
  }
  growing_sync();
  const int i = static_cast<int>(threadIdx.x);
  early.child_score = i < top.rows * k ? child_score[i] : 0.0F;
  grow_slots(p, places, s, early, log_half, grows);
}

}  // namespace versieve::kernels
