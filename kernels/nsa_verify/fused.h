// nsa_verify on the GPU, fused form in bf16: routing and attending in a refresh layer, one launch
// in a reuse layer (Sparse Speculative Verification, section 4). fused.cuh says how work is cut.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/nsa_verify/params.h"

namespace versieve::kernels {

// Whether the fused launches take this shape: head size a multiple of 16 up to 128, H/G <= 16,
// N <= 256, B a multiple of 16, (B/s) (l/s + 1) <= 2048, and tables that fit shared memory
// (contexts to about 512K for 32/16/64).
bool fused_takes(const NsaVerifyParams<Bf16>& p);
// REQUIRES: fused_takes(p). Scratch of a call, 256-byte aligned.
std::size_t fused_scratch_bytes(const NsaVerifyParams<Bf16>& p);
// REQUIRES: fused_takes(p). Enqueues; never waits or allocates.
void launch_fused(const NsaVerifyParams<Bf16>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
