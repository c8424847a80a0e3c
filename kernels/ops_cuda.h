// What the profiler and graph code need of the CUDA engine beside Ops.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// The cudaStream_t on which `ops` enqueues everything. REQUIRES: ops of make_cuda_ops. Throws
// Error(kEnvironment) in a build without CUDA.
template <class T>
void* stream_of(Ops<T>& ops);

// Bytes of the device's memory that nobody has. REQUIRES and throws as stream_of.
template <class T>
std::int64_t free_memory(Ops<T>& ops);

}  // namespace versieve::kernels
