// The profiler's own kernels: a delay that keeps a stream busy, the two known ones by which the
// counters are checked, and one that only reads.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace versieve::profiler {

// Keeps the stream busy for about that long, on one thread.
void launch_delay(double microseconds, cudaStream_t stream);
// Reads `bytes` and writes as many, each once. REQUIRES: a multiple of 16.
void launch_copy(const void* from, void* to, std::int64_t bytes, cudaStream_t stream);
// Reads `bytes` `times` over; `sink` is written only if the data say so (they do not).
void launch_reread(const void* from, std::int64_t bytes, int times, std::uint32_t* sink,
                   cudaStream_t stream);

struct ReadForm {
  int loads = 4;  // of 16 bytes that a thread has under way: 1, 2, 4 or 8
  std::int64_t most_blocks = 1056;
};
// Reads `bytes` once. REQUIRES: a multiple of 32 KiB; zeros.
void launch_read(const void* from, std::int64_t bytes, const ReadForm& form, std::uint32_t* sink,
                 cudaStream_t stream);

}  // namespace versieve::profiler
