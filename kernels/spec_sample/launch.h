// spec_sample on CUDA: which launches a variant is. Both forms decide alike for the same numbers.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// What launch_spec_sample needs of context.scratch.
template <class T>
std::size_t spec_sample_scratch_bytes(const SpecSampleParams<T>& p);
// T = float or Bf16. Enqueues, never waits. `exact` and `sigmoid` are the fused launch where it
// takes the shape, else the baseline's launches with the same results.
template <class T>
void launch_spec_sample(const SpecSampleParams<T>& p, const LaunchContext& context);

// One launch a step, laws in memory (baseline.cu).
template <class T>
std::size_t spec_baseline_scratch_bytes(const SpecSampleParams<T>& p);
template <class T>
void launch_spec_baseline(const SpecSampleParams<T>& p, const LaunchContext& context);

// A cluster of blocks a position, then the pick of the first rejection (fused.cu).
template <class T>
bool spec_fused_takes(const SpecSampleParams<T>& p);
template <class T>
std::size_t spec_fused_scratch_bytes(const SpecSampleParams<T>& p);
template <class T>
void launch_spec_fused(const SpecSampleParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
