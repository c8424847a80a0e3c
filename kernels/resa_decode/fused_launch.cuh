// The fused form of resa_decode: one launch for bf16 and head sizes 64 and 128.
#pragma once

#include <span>
#include <type_traits>

#include "kernels/common/launch_context.h"
#include "kernels/resa_decode/step.cuh"

namespace versieve::kernels {

// Its chunks: a 64th of the listed tokens or little more, in whole tiles of 64, one at least.
inline constexpr int kListedChunks = 64;
VERSIEVE_HOST_DEVICE inline std::int64_t listed_chunk_keys(std::int64_t tokens) {
  const std::int64_t tiles = (tokens + 64 * kListedChunks - 1) / (64 * kListedChunks);
  return tiles > 0 ? tiles * 64 : 64;
}
// The most chunks of up to that many tokens.
VERSIEVE_HOST_DEVICE inline std::int64_t most_listed_chunks(std::int64_t tokens) {
  const std::int64_t tiles = (tokens + 63) / 64;
  return tiles < kListedChunks ? tiles : kListedChunks;
}

inline constexpr int kMostCluster = 16;           // blocks of a cluster
inline constexpr std::int64_t kMostKeys = 65535;  // of a block: bins are exchanged in 16 bits
template <class T>
bool resa_fused_takes(const ResaDecodeParams<T>& p) {
  return std::is_same_v<T, Bf16> && !p.vanilla && (p.head_dim == 64 || p.head_dim == 128) &&
         p.block_count() <= kMostCluster * kMostKeys;
}
// Whether a launch takes both: their caches are read through one pair of maps.
bool resa_fused_shares(const ResaDecodeParams<Bf16>& a, const ResaDecodeParams<Bf16>& b);
// Enqueues, never waits. REQUIRES: resa_fused_takes each, H/G <= 16; they share a launch, and are
// at most kMostListedCalls.
void launch_resa_fused(std::span<const ResaCall<Bf16>> calls, const LaunchContext& context);

}  // namespace versieve::kernels
