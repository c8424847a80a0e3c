// What the profiler and graph code need of the CUDA engine beside Ops.
#pragma once

#include <cstddef>

#include "kernels/ops.h"

namespace versieve::kernels {

// The cudaStream_t on which `ops` enqueues everything. REQUIRES: ops of make_cuda_ops. Throws
// Error(kEnvironment) in a build without CUDA.
template <class T>
void* stream_of(Ops<T>& ops);

// Grows the scratch that ops share to at least `bytes`, so that nothing allocates later. Scratch
// also grows by itself on first use; a graph is captured after one plain run of the same ops (or
// after this). REQUIRES and throws: as stream_of.
template <class T>
void reserve_scratch(Ops<T>& ops, std::size_t bytes);

}  // namespace versieve::kernels
