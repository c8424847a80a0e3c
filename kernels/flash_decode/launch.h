// tree_attention over a long context, its keys split over blocks, on the GPU: the form in which a
// dense target decodes, verifies and rectifies.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// Whether launch_flash_decode has a kernel for that launch: bf16, a head size of 64 or 128, H/G <=
// 16, at most 4096 nodes, no window, keys from position 0 on; chosen tokens too.
template <class T>
bool flash_decode_takes(const TreeAttentionParams<T>& p);
// Whether it gives p.weights too: a chain of few enough rows for one warp, as a draft's step is.
bool flash_decode_captures(const TreeAttentionParams<Bf16>& p);
// What launch_flash_decode needs of context.scratch.
std::size_t flash_decode_scratch_bytes(const TreeAttentionParams<Bf16>& p);
// Enqueues, never waits. REQUIRES: flash_decode_takes(p); a child's position is its parent's + 1.
void launch_flash_decode(const TreeAttentionParams<Bf16>& p, const LaunchContext& context);

}  // namespace versieve::kernels
#endif
