// Partial sums of linear/stream.cu: from the warps' registers to the blocks of the cluster that
// finish their rows, and from there to y.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/linear/async_copy.cuh"
#include "kernels/linear/stream_plan.cuh"
#include "kernels/swiglu/activation.cuh"

namespace versieve::kernels {

// This thread's partial sums of the nodes [first_node, + kRoundNodes) of the tile into the block's
// array, sorted by the block that finishes their rows.
template <class Plan>
__device__ inline void write_partials(int slices, int group, int first_node, float* made,
                                      const float (&sum)[Plan::kNodes / 8][4]) {
  const int share = kGroupRows / slices;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + lane / 4;
#pragma unroll
  for (int columns = 0; columns < Plan::kRoundNodes / 8; ++columns) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + i / 2 * 8;
      const int node = columns * 8 + lane % 4 * 2 + i % 2;
      made[((row / share * Plan::kRoundNodes + node) * Plan::kGroups + group) *
               (share + Plan::kPad) +
           row % share] = sum[first_node / 8 + columns][i];
    }
  }
}

// The same straight into the shared memory of the blocks that finish the rows: best for few nodes.
template <class Plan>
__device__ inline void send_partials(const Tile& t, int group, std::uint32_t received,
                                     const float (&sum)[Plan::kNodes / 8][4]) {
  static_assert(Plan::kOwnRoom && Plan::kNodes == 8, "a block may send before others are done");
  const int share = kGroupRows / t.slices;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first_row + i / 2 * 8;
    const int node = lane % 4 * 2 + i % 2;
    if (node < t.node_count) {
      const int at =
          ((t.slice * Plan::kRoundNodes + node) * Plan::kGroups + group) * (share + Plan::kPad) +
          row % share;
      store_remote(received + static_cast<std::uint32_t>(at * 4),
                   static_cast<unsigned>(row / share), sum[0][i]);
    }
  }
}

// Sends each other block of the cluster the partial sums of its rows. The barrier is armed first:
// what others send may arrive at once.
template <class Plan>
__device__ inline void exchange_partials(const Tile& t, int node_count, std::uint32_t ring,
                                         std::uint32_t received) {
  const int pitch = (kGroupRows / t.slices + Plan::kPad) * 4;
  const int bytes = node_count * Plan::kGroups * pitch;
  const int block_bytes = Plan::kRoundNodes * Plan::kGroups * pitch;
  if (threadIdx.x == 0) {
    barrier_expect(received, (t.slices - 1) * bytes);
  }
  if (const int block = static_cast<int>(threadIdx.x); block < t.slices && block != t.slice) {
    const unsigned to = threadIdx.x;
    copy_to_block(to, ring + static_cast<std::uint32_t>(Plan::kReceivedAt + t.slice * block_bytes),
                  ring + to * static_cast<std::uint32_t>(block_bytes), bytes, received);
  }
}

// Four neighbouring outputs of a node; those past the last row are dropped.
__device__ inline void write_quad(const LinearParams<Bf16>& p, int node, int m, float4 sum) {
  const std::int64_t at = static_cast<std::int64_t>(node) * p.m + m;
  float value[4] = {sum.x, sum.y, sum.z, sum.w};
  const std::uintptr_t addresses =
      reinterpret_cast<std::uintptr_t>(p.y) | reinterpret_cast<std::uintptr_t>(p.residual);
  if (p.m % 4 == 0 && addresses % sizeof(uint2) == 0 && m < p.m) {
    if (p.residual != nullptr) {
      const uint2 residual = *reinterpret_cast<const uint2*>(p.residual + at);
      value[0] += __uint_as_float(residual.x << 16);
      value[1] += __uint_as_float(residual.x & 0xFFFF0000U);
      value[2] += __uint_as_float(residual.y << 16);
      value[3] += __uint_as_float(residual.y & 0xFFFF0000U);
    }
    uint2 packed;
    Bf16* const out = reinterpret_cast<Bf16*>(&packed);
    for (int i = 0; i < 4; ++i) {
      store_f32(out + i, value[i]);
    }
    *reinterpret_cast<uint2*>(p.y + at) = packed;
    return;
  }
  for (int i = 0; i < 4 && m + i < p.m; ++i) {
    store_f32(p.y + at + i,
              p.residual == nullptr ? value[i] : load_f32(p.residual + at + i) + value[i]);
  }
}

// Adds the slices' partial sums of this block's share of the rows and writes y, 4 rows a thread.
// The block's own slice lies in `own`, those of others in `received`, at the same index.
template <class Plan>
__device__ inline void finish_rows(const LinearParams<Bf16>& p, const Tile& t, int first_node,
                                   int node_count, const float* own, const float* received) {
  const int share = kGroupRows / t.slices;
  const auto total = [&](int group, int node, int r) {
    float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    for (int slice = 0; slice < t.slices; ++slice) {
      const float* const partials = slice == t.slice ? own : received;
      const float4 part = *reinterpret_cast<const float4*>(
          partials +
          ((slice * Plan::kRoundNodes + node) * Plan::kGroups + group) * (share + Plan::kPad) + r);
      sum.x += part.x;
      sum.y += part.y;
      sum.z += part.z;
      sum.w += part.w;
    }
    return sum;
  };
  const int groups = p.swiglu ? 1 : Plan::kGroups;
  const int quads = share / 4;
  for (int i = static_cast<int>(threadIdx.x); i < node_count * groups * quads;
       i += Plan::kThreads) {
    const int r = i % quads * 4;
    const int group = i / quads % groups;
    const int node = i / (quads * groups);
    float4 sum = total(group, node, r);
    if (p.swiglu) {
      const float4 up = total(1, node, r);
      sum = make_float4(silu_product(sum.x, up.x), silu_product(sum.y, up.y),
                        silu_product(sum.z, up.z), silu_product(sum.w, up.w));
    }
    write_quad(p, first_node + node, t.first_row[group] + t.slice * share + r, sum);
  }
}

}  // namespace versieve::kernels
