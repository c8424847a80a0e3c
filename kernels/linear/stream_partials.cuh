// Partial sums of linear/stream.cu, few nodes: from the warps' registers to the blocks of the
// cluster that finish their rows.
#pragma once

#include "kernels/linear/stream_plan.cuh"
#include "kernels/ptx/cluster.cuh"
#include "kernels/ptx/settle.cuh"

namespace versieve::kernels {

// This thread's partial sums into the block's array, sorted by the block that finishes their rows.
template <class Plan>
__device__ inline void write_partials(const Tile& t, int group, float* made,
                                      const float (&sum)[Plan::kNodes / 8][4]) {
  const int share_bits = t.share_bits();
  const int pitch = (1 << share_bits) + Plan::kPad;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first_row + i / 2 * 8;
    const int node = lane % 4 * 2 + i % 2;
    made[(((row >> share_bits) * Plan::kRoundNodes + node) * Plan::kGroups + group) * pitch +
         t.row_of_share(row)] = sum[0][i];
  }
}

// The same straight into the shared memory of the blocks that finish the rows, counted on their
// barrier: best for few nodes. Not `live`: nothing is sent.
template <class Plan>
__device__ inline void send_partials(const Tile& t, int group, std::uint32_t received,
                                     std::uint32_t barrier, bool live,
                                     const float (&sum)[Plan::kNodes / 8][4]) {
  static_assert(Plan::kOwnRoom && Plan::kNodes == 8, "a block may send before others are done");
  const int share_bits = t.share_bits();
  const int pitch = (1 << share_bits) + Plan::kPad;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first_row + i / 2 * 8;
    const int node = lane % 4 * 2 + i % 2;
    if (live && node < t.node_count) {
      const int at = ((t.slice * Plan::kRoundNodes + node) * Plan::kGroups + group) * pitch +
                     t.row_of_share(row);
      int block = row >> share_bits;
      settle(block);  // addresses there are worked out by who sends, not before
      push_float(address_in_block(received + static_cast<std::uint32_t>(at * 4), block), sum[0][i],
                 address_in_block(barrier, block));
    }
  }
}

}  // namespace versieve::kernels
