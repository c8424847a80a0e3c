// flash_decode of several sequences on the GPU: one launch, and one merge, for up to 27 calls.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cstddef>
#include <span>

#include "kernels/common/launch_context.h"
#include "kernels/ops.h"

namespace versieve::kernels {

// Whether such a launch takes the call: flash_decode does, of at most 128 queries, without selected
// tokens, weights and counts.
bool flash_decode_shares(const TreeAttentionParams<Bf16>& p);
// Calls of one model, of which none reads what another writes. Each has the bits that it has alone.
// REQUIRES: flash_decode_shares() of each. The first: scratch, 256-byte aligned.
std::size_t flash_decode_together_bytes(std::span<const TreeAttentionParams<Bf16>> calls);
void launch_flash_decode_together(std::span<const TreeAttentionParams<Bf16>> calls,
                                  const LaunchContext& context);

}  // namespace versieve::kernels
#endif
