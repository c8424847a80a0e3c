// tree_sample on CUDA: which launches a variant is. Both forms decide alike for the same numbers.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// T = float or Bf16. Enqueues, never waits. `exact` is the fused launch where it takes the shape,
// else the baseline's launches with the same results.
template <class T>
void launch_tree_sample(const TreeSampleParams<T>& p, const LaunchContext& context);

// Each test anew over the row (baseline.cu). REQUIRES: samples < 2^16.
template <class T>
void launch_tree_baseline(const TreeSampleParams<T>& p, const LaunchContext& context);

// Clusters of blocks share the nodes, the last one walks (fused.cu). REQUIRES: samples * N <=
// kLaunchCounters.
template <class T>
bool tree_fused_takes(const TreeSampleParams<T>& p);
template <class T>
void launch_tree_fused(const TreeSampleParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
