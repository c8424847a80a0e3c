// resa_decode on the GPU: scores, selection, attention, merge.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/resa_decode/params.h"

namespace versieve::kernels {

// What launch_resa_decode needs of context.scratch. Throws as that.
template <class T>
std::size_t resa_decode_scratch_bytes(const ResaDecodeParams<T>& p);
// T = float or Bf16. Enqueues, never waits. Throws Error(kAnswerNo) for a head size not a multiple
// of 16 up to 128, H/G > 16, G > 65,535 or 2^31 - 1 tokens.
template <class T>
void launch_resa_decode(const ResaDecodeParams<T>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
