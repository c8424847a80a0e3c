// Trees of several requests, each with its own nodes, temperature and cuts, in one launch on CUDA.
#pragma once

#include <span>

#include "kernels/samplers_together.h"
#include "model/launches/tree_sample.h"
#ifdef VERSIEVE_HAS_CUDA
#include "kernels/common/launch_context.h"
#endif

namespace versieve::kernels {

// Whether a launch takes that call beside others.
template <class T>
bool goes_together(const TreeSampleParams<T>& p) {
  return p.variant == TreeSampleVariant::kExact && p.samples == 1 &&
         tree_in_one_launch(p.num_nodes, p.vocab);
}

#ifdef VERSIEVE_HAS_CUDA
// T = float or Bf16. REQUIRES: goes_together of each, one vocabulary, at most kMostSampled
// (kernels/spec_sample/together.h). Enqueues, never waits.
template <class T>
std::size_t tree_together_scratch_bytes(std::span<const TreeSampleParams<T>> calls);
template <class T>
void launch_tree_together(std::span<const TreeSampleParams<T>> calls, const LaunchContext& context);
#endif

}  // namespace versieve::kernels
