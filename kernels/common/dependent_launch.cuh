// Programmatic dependent launch: a kernel starts while the one before it on the stream still runs,
// does what does not depend on it (fetching weights), and only then waits.
//
// Rule of every kernel launched here: each thread that reads what a predecessor wrote, or writes
// what a predecessor may read, calls wait_for_predecessors() (ptx/grid.cuh) first, and at least one
// thread of each grid calls it, so that the end of a grid implies the end of all before it.
// Positions and index lists count as written by a predecessor; weights do not.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "kernels/common/cuda_check.h"
#include "kernels/ptx/grid.cuh"

namespace versieve::kernels {

struct DependentGrid {
  dim3 grid = {};
  unsigned threads = 0;
  unsigned cluster = 1;  // blocks of a cluster, along x
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// Enqueues `kernel` so that it may start early; also under stream capture, where the dependency
// becomes a programmatic edge of the graph. The shared memory carve-out is asked for in full:
// blocks of two kernels share an SM only under one carve-out.
template <class... Params, class... Args>
void launch_dependent(const DependentGrid& g, void (*kernel)(Params...), Args&&... args) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared));
  if (g.shared_bytes > 0) {  // the kernel's own arrays count towards what needs no asking
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(g.shared_bytes)));
  }
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = g.cluster;
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = g.grid;
  config.blockDim = dim3(g.threads);
  config.dynamicSmemBytes = g.shared_bytes;
  config.stream = g.stream;
  config.attrs = attributes;
  config.numAttrs = g.cluster > 1 ? 2 : 1;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

}  // namespace versieve::kernels
