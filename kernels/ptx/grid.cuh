// Programmatic dependent launch, the device's side (common/dependent_launch.cuh has the host's and
// the rule that kernels follow).
#pragma once

namespace versieve::kernels {

// All grids before this one on the stream have ended and their writes are visible.
__device__ inline void wait_for_predecessors() {
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
}
// The next grid may start once every block of this one has called this or ended.
__device__ inline void release_successors() {
  asm volatile("griddepcontrol.launch_dependents;\n");
}

}  // namespace versieve::kernels
