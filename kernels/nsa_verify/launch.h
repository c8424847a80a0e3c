// nsa_verify on the GPU. Fused form: fused.h. Vanilla form (Sparse Speculative Verification,
// section 3): compressed, select, selected, window and combine as separate launches, one query and
// KV head a CTA, branch outputs through memory; the baseline that the other is quoted against.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/nsa_verify/params.h"

namespace versieve::kernels {

// T = float or Bf16. Scratch that a launch of this shape needs, 256-byte aligned. Throws as that.
template <class T>
std::size_t nsa_verify_scratch_bytes(const NsaVerifyParams<T>& p);

// Enqueues; never waits or allocates. Throws Error(kAnswerNo) with a sentence for a shape it does
// not take: head size not a multiple of 16 up to 128, H/G > 16, N > 4096, G > 65,535, more than
// 33,553,920 compressed tokens, B/s + l/s > 1024, or more selection blocks than shared memory holds
// (about 50,000).
template <class T>
void launch_nsa_verify(const NsaVerifyParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
