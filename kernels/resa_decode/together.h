// resa_decode of several sequences on the GPU, up to 64 calls in the launches of one. Those share
// them that have one form and, where the copy engine brings the tokens, one pool of pages and one
// size of its boxes.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/resa_decode/params.h"

namespace versieve::kernels {

// What launch_resa_together needs of context.scratch: up to 256 MiB of several calls. Throws as
// launch_resa_decode.
template <class T>
std::size_t resa_together_scratch_bytes(std::span<const ResaDecodeParams<T>> calls);
// T = float or Bf16. Calls of one model, of which none reads what another writes; each has the bits
// that it has alone. Enqueues, never waits. Throws as launch_resa_decode.
template <class T>
void launch_resa_together(std::span<const ResaDecodeParams<T>> calls, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
