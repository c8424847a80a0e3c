// A launch that does nothing: what a call takes before it does anything.
#pragma once

#include <cuda_runtime.h>

namespace versieve::test {

// Enqueues one dependent launch of `blocks` blocks of 512 threads in clusters of `cluster`.
void launch_empty(unsigned blocks, unsigned cluster, cudaStream_t stream);

}  // namespace versieve::test
