// linear in bf16 on tensor cores (linear/mma.cu).
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cuda_runtime.h>

#include "kernels/ops.h"

namespace versieve::kernels {

// REQUIRES: K a multiple of 8, x and w on 16 bytes, n >= 1.
void launch_linear_mma(const LinearParams<Bf16>& p, cudaStream_t stream);

}  // namespace versieve::kernels
#endif
