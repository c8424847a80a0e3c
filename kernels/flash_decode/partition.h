// How a row's keys are cut into chunks whose partial results are merged in ascending order. The cut
// is a function of the number of keys that the row sees and of nothing else, so neither the other
// rows of a launch nor its grid change a bit.
#pragma once

#include <cstdint>

#include "kernels/common/host_device.h"

namespace versieve::kernels {

inline constexpr std::int64_t kDenseChunk = 128;  // keys, the fewest of a chunk
inline constexpr int kMaxChunks = 128;            // of a row

// Keys of a chunk: 128 up to 16,384 keys, then a 64th to a 128th of them.
VERSIEVE_HOST_DEVICE inline std::int64_t chunk_keys(std::int64_t keys) {
  std::int64_t chunk = kDenseChunk;
  while (keys > kMaxChunks * chunk) {
    chunk *= 2;
  }
  return chunk;
}
// The most chunks of a row that sees up to that many keys.
VERSIEVE_HOST_DEVICE inline std::int64_t most_chunks(std::int64_t keys) {
  const std::int64_t chunks = (keys + kDenseChunk - 1) / kDenseChunk;
  return chunks < kMaxChunks ? chunks : kMaxChunks;
}

// Where a launch keeps the chunks' results: weighted values with their maximum and sum, as
// 2^(score - max) in units of log2.
struct ChunkPartials {
  float* value = nullptr;    // [rows, chunks, d]
  float* max_sum = nullptr;  // [rows, chunks, 2]
  std::int64_t chunks = 0;   // room a row
};

}  // namespace versieve::kernels
