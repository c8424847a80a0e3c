// spec_sample on CUDA, variant `baseline`: separate launches, laws written to memory between them.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// What launch_spec_sample needs of context.scratch.
template <class T>
std::size_t spec_sample_scratch_bytes(const SpecSampleParams<T>& p);
// T = float or Bf16. Enqueues, never waits.
template <class T>
void launch_spec_sample(const SpecSampleParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
