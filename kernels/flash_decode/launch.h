// Dense attention of a chain of queries over a long context, its keys split over blocks, on the
// GPU: the form of tree_attention that a dense target decodes and rectifies with.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// Whether launch_flash_decode has a kernel for that launch: bf16, a head size of 64 or 128, and
// p.splits_chain with what it promises.
template <class T>
bool flash_decode_takes(const TreeAttentionParams<T>& p);
// What launch_flash_decode needs of context.scratch.
std::size_t flash_decode_scratch_bytes(const TreeAttentionParams<Bf16>& p);
// Enqueues, never waits. REQUIRES: flash_decode_takes(p).
void launch_flash_decode(const TreeAttentionParams<Bf16>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
