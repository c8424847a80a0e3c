// Growth as launches of one block: of children that a launch before listed, or listed here.
#pragma once

#include "kernels/common/dependent_launch.cuh"
#include "kernels/draft_tree/grow.cuh"
#include "kernels/top_logits/short_rows.cuh"

namespace versieve::kernels {

__global__ void __launch_bounds__(kGrowThreads)
    grow_tree_kernel(const __grid_constant__ GrowTreeParams p, float log_half, bool grows) {
  __shared__ GrowShared s;
  release_successors();
  wait_for_predecessors();
  grow(p, s, read_early(p, s), log_half, grows);
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
  grow(p, s, early, log_half, grows);
}

}  // namespace versieve::kernels
