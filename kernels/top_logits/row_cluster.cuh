// A row's blocks: a cluster whose warps each hold a piece of the row and push what they found, 8
// bytes at a time, into the first block's shared memory, where a barrier counts the bytes. No
// fence, no memory outside the cluster, and any number of rows. The first block sets its barriers
// up before it arrives at the cluster's; who pushes has waited there.
#pragma once

#include <cstdint>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/shared_memory.cuh"

namespace versieve::kernels {

inline constexpr int kMaxRowBlocks = 16;
inline constexpr int kMaxRowWarps = 16;  // of a block

inline constexpr int kPushBytes = 8;

__device__ inline void push_rank(std::uint32_t there, std::uint64_t rank, std::uint32_t barrier) {
  push_pair(there, make_uint2(static_cast<unsigned>(rank), static_cast<unsigned>(rank >> 32)),
            barrier);
}

}  // namespace versieve::kernels
