// Partial sums of linear/stream.cu: from the warps' registers to the blocks of the cluster that
// finish their rows, and from there to y.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/linear/async_copy.cuh"
#include "kernels/linear/folded_norm.cuh"
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

// Four neighbouring elements of a row; the vector form needs 8-byte addresses.
__device__ inline float4 load_quad(const Bf16* from) {
  const uint2 packed = *reinterpret_cast<const uint2*>(from);
  return make_float4(__uint_as_float(packed.x << 16), __uint_as_float(packed.x & 0xFFFF0000U),
                     __uint_as_float(packed.y << 16), __uint_as_float(packed.y & 0xFFFF0000U));
}
// Returns what was stored.
__device__ inline float4 store_quad(Bf16* to, float4 value) {
  uint2 packed;
  Bf16* const out = reinterpret_cast<Bf16*>(&packed);
  store_f32(out, value.x);
  store_f32(out + 1, value.y);
  store_f32(out + 2, value.z);
  store_f32(out + 3, value.w);
  *reinterpret_cast<uint2*>(to) = packed;
  return load_quad(reinterpret_cast<const Bf16*>(&packed));
}

// Writes four neighbouring outputs of a node, and times the next norm's weight if there is one;
// those past the last row are dropped. Returns the sum of their squares, 0 without a norm.
__device__ inline float write_quad(const LinearParams<Bf16>& p, int node, int m, float4 sum) {
  const std::int64_t at = static_cast<std::int64_t>(node) * p.m + m;
  const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(p.y) |
                                   reinterpret_cast<std::uintptr_t>(p.residual) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weight) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weighted);
  const bool weighs = p.norm.y_weight != nullptr;
  if (p.m % 4 == 0 && addresses % sizeof(uint2) == 0 && m < p.m) {
    float4 weight = {};
    if (weighs) {
      weight = load_quad(p.norm.y_weight + m);
    }
    if (p.residual != nullptr) {
      const float4 residual = load_quad(p.residual + at);
      sum.x += residual.x;
      sum.y += residual.y;
      sum.z += residual.z;
      sum.w += residual.w;
    }
    const float4 y = store_quad(p.y + at, sum);
    if (!weighs) {
      return 0.0F;
    }
    store_quad(p.norm.y_weighted + at,
               make_float4(y.x * weight.x, y.y * weight.y, y.z * weight.z, y.w * weight.w));
    return fmaf(y.w, y.w, fmaf(y.z, y.z, fmaf(y.y, y.y, y.x * y.x)));
  }
  const float value[4] = {sum.x, sum.y, sum.z, sum.w};
  float square = 0.0F;
  for (int i = 0; i < 4 && m + i < p.m; ++i) {
    store_f32(p.y + at + i,
              p.residual == nullptr ? value[i] : load_f32(p.residual + at + i) + value[i]);
    if (weighs) {
      square += weigh_output(p, node, m + i);
    }
  }
  return square;
}

// Adds the slices' partial sums of this block's share of the rows and writes y, 4 rows a thread.
// The block's own slice lies in `own`, those of others in `received`, at the same index; `scale`
// [node_count] multiplies the sums. The threads of a node are neighbours: their squares are added
// within the warp, blocks add as integers.
template <class Plan>
__device__ inline void finish_rows(const LinearParams<Bf16>& p, const Tile& t, int first_node,
                                   int node_count, const float* own, const float* received,
                                   const float* scale) {
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
    return make_float4(sum.x * scale[node], sum.y * scale[node], sum.z * scale[node],
                       sum.w * scale[node]);
  };
  const int groups = p.swiglu ? 1 : Plan::kGroups;
  const int quads = share / 4;
  const int threads = quads * groups;  // of a node: a power of two up to 32
  const int count = node_count * threads;
  for (int first = static_cast<int>(threadIdx.x / 32 * 32); first < count;
       first += Plan::kThreads) {
    const int i = first + static_cast<int>(threadIdx.x % 32);
    const int r = i % quads * 4;
    const int group = i / quads % groups;
    const int node = i / threads;
    float square = 0.0F;
    if (i < count) {
      float4 sum = total(group, node, r);
      if (p.swiglu) {
        const float4 up = total(1, node, r);
        sum = make_float4(silu_product(sum.x, up.x), silu_product(sum.y, up.y),
                          silu_product(sum.z, up.z), silu_product(sum.w, up.w));
      }
      square = write_quad(p, first_node + node, t.first_row[group] + t.slice * share + r, sum);
    }
    if (p.norm.y_squares != nullptr) {
      for (int distance = threads / 2; distance > 0; distance /= 2) {
        square += __shfl_xor_sync(0xFFFFFFFFU, square, distance);
      }
      if (i < count && i % threads == 0) {
        atomicAdd(p.norm.y_squares + first_node + node, square_sum(square));
      }
    }
  }
}

}  // namespace versieve::kernels
