// linear in bf16 on tensor cores, weights streamed by the copy engine (linear/stream.cu).
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cuda_runtime.h>

#include "kernels/ops.h"

namespace versieve::kernels {

// Starts under the launch before it and fetches weights meanwhile (common/dependent_launch.cuh):
// `w` and the next norm's weight are never written by a launch still running. REQUIRES: K a
// multiple of 8, x and w on 16 bytes, n >= 1.
void launch_linear_stream(const LinearParams<Bf16>& p, cudaStream_t stream);

}  // namespace versieve::kernels
#endif
