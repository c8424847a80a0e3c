// linear in bf16 of many rows: tiles of y by a persistent kernel (linear/gemm.cu), with the bits of
// linear/stream.cu.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cuda_runtime.h>

#include "kernels/ops.h"

namespace versieve::kernels {

// Whether this form computes the call: model/launches/linear.h wants it for the shape, and outputs
// can be written 8 at a time.
bool linear_gemm_takes(const LinearParams<Bf16>& p);

// Starts early and reads weights then, as launch_linear_stream. REQUIRES: linear_gemm_takes(p), x
// and w on 16 bytes.
void launch_linear_gemm(const LinearParams<Bf16>& p, cudaStream_t stream);

}  // namespace versieve::kernels
#endif
