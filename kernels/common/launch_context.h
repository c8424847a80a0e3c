// What a launch needs beside its params: where to enqueue, who watches, and scratch memory that was
// allocated before, so that no launch ever allocates.
#pragma once

#ifdef VERSIEVE_HAS_CUDA
#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/common/launch_observer.h"

namespace versieve::kernels {

inline constexpr int kLaunchCounters = 1 << 14;
inline constexpr std::size_t kTicketBytes = 1024;

struct LaunchContext {
  cudaStream_t stream = nullptr;
  LaunchObserver* observer = nullptr;  // or null
  void* scratch = nullptr;             // device memory, 256-byte aligned
  std::size_t scratch_bytes = 0;
  unsigned* counters = nullptr;  // kLaunchCounters zeros in device memory; a launch leaves zeros
  // Device memory of kTicketBytes or null: zero at first, and left by each launch that uses it as
  // the next one expects it. Launches of one context follow each other on its stream.
  void* tickets = nullptr;
  // Device memory of kFusedPartBytes (model/launches/fused_cut.h) or null: all bits set; a launch
  // leaves them set.
  void* parts = nullptr;
};

}  // namespace versieve::kernels
#endif
