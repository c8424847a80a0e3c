// Which warp of its thread block a thread belongs to.
#pragma once

namespace versieve::kernels {

// This warp's number in its block. It comes out of a shuffle so that the compiler sees that all
// lanes have the same: what follows from it is worked out in uniform registers, once a warp, and
// copies need no loop over the lanes that might differ. All lanes of the warp call it.
__device__ __forceinline__ int warp_of_block() {
  return __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / 32, 0);
}

}  // namespace versieve::kernels
