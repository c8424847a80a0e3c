// What a call takes before it does anything: a launch that does nothing, and one that only reads.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace versieve::test {

// Enqueues one dependent launch of `blocks` blocks of 512 threads in clusters of `cluster`.
void launch_empty(unsigned blocks, unsigned cluster, cudaStream_t stream);

// Enqueues one dependent launch that reads that memory once, in words of 16 bytes, and keeps
// nothing. `sink`: a word that it never writes.
void launch_read(const void* from, std::int64_t bytes, unsigned* sink, cudaStream_t stream);

}  // namespace versieve::test
