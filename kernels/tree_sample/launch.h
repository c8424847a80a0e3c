// tree_sample on CUDA: which launches a variant is. Both forms decide alike for the same numbers.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// What launch_tree_sample needs of context.scratch.
template <class T>
std::size_t tree_sample_scratch_bytes(const TreeSampleParams<T>& p);
// T = float or Bf16. Enqueues, never waits. `exact` is the fused launch where it takes the shape,
// else the baseline's launches with the same results.
template <class T>
void launch_tree_sample(const TreeSampleParams<T>& p, const LaunchContext& context);

// Each test anew over the row (baseline.cu). REQUIRES: samples < 2^16.
template <class T>
void launch_tree_baseline(const TreeSampleParams<T>& p, const LaunchContext& context);

// Clusters of blocks share the nodes, the last one walks (fused.cu). REQUIRES: a counter a sample.
template <class T>
bool tree_fused_takes(const TreeSampleParams<T>& p);
template <class T>
void launch_tree_fused(const TreeSampleParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
