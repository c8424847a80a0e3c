// A tile of 64 keys, or of their values, in shared memory: panels of 64 elements,
// [d / 64][64 keys][128 bytes], swizzled as the copy engine's 128-byte mode does; it starts on
// 1,024 bytes. Warps multiply it with tiles of 16 query rows.
#pragma once

#include <cstdint>

namespace versieve::kernels {

inline constexpr int kTileKeys = 64;
inline constexpr int kTileRows = 16;
inline constexpr int kPanelBytes = kTileKeys * 128;

// Chunk c (of 8 elements) of row r of a panel whose rows are kRowBytes long: chunks are permuted
// within a row so that eight rows of one chunk column fall into different banks.
template <int kRowBytes>
__device__ inline std::uint32_t swizzled_chunk(std::uint32_t panel, int row, int chunk) {
  return panel + static_cast<std::uint32_t>(row * kRowBytes + ((chunk ^ (row & 7)) * 16));
}

}  // namespace versieve::kernels
