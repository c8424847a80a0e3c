// What a launch needs beside its params: where to enqueue, who watches, and scratch memory that was
// allocated before, so that no launch ever allocates.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/common/launch_observer.h"

namespace versieve::kernels {

struct LaunchContext {
  cudaStream_t stream = nullptr;
  LaunchObserver* observer = nullptr;  // or null
  void* scratch = nullptr;             // device memory, 256-byte aligned
  std::size_t scratch_bytes = 0;
};

}  // namespace versieve::kernels
#endif
