// The end of linear/stream.cu for many nodes: warps add the slices' matrices
// (stream_fragments.cuh), of which a lane holds two rows and four nodes, turn rounded outputs by
// way of stmatrix and write 8 neighbouring ones a lane.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/linear/stream_finish.cuh"
#include "kernels/linear/stream_fragments.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/swiglu/activation.cuh"

namespace versieve::kernels {

// By one warp, before the wait: the next norm's weights of the share, which nobody writes.
template <class Plan>
__device__ inline void stage_weights(const LinearParams<Bf16>& p, const Tile& t, Bf16* weights) {
  const int at = static_cast<int>(threadIdx.x % 32) * 8;
  const int m = t.first_row[0] + (t.slice << t.share_bits()) + at;
  if (p.norm.y_weight != nullptr && at < 1 << t.share_bits() && m < p.m) {
    *reinterpret_cast<uint4*>(weights + at) = *reinterpret_cast<const uint4*>(p.norm.y_weight + m);
  }
}
// By one warp, after the wait: residuals of the share [nodes, rows], there after await_fetched().
template <class Plan>
__device__ inline void fetch_residuals(const LinearParams<Bf16>& p, const Tile& t,
                                       std::uint32_t residual) {
  const int bits = t.share_bits() - 3;  // 2^bits octets a node
  const int first_m = t.first_row[0] + (t.slice << t.share_bits());
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int m = first_m + (lane & ((1 << bits) - 1)) * 8;
  if (p.residual == nullptr || m >= p.m) {
    return;
  }
  const Bf16* const from = p.residual + static_cast<std::int64_t>(t.first_node) * p.m + m;
#pragma unroll 1
  for (int i = lane; i < t.node_count << bits; i += 32) {
    fetch_16(residual + static_cast<std::uint32_t>(i * 16), from + (i >> bits) * p.m);
  }
}

// The sums over kSlices slices, ascending, of 16 rows by 16 nodes: row lane / 4 (+ 8), nodes
// lane % 4 * 2 (+ 1), then + 8. With 8 rows the second half repeats the first.
template <int kSlices>
__device__ inline void add_slices(std::uint32_t at, std::uint32_t half, std::uint32_t slice_bytes,
                                  float (&sum)[2][4]) {
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice, at += slice_bytes) {
    const uint4 low = load_16(at);
    const uint4 high = load_16(at + half);
    const std::uint32_t part[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sum[i / 4][i % 4] += __uint_as_float(part[i]);
    }
  }
}
template <class Plan>
__device__ inline void add_fragments(const Tile& t, std::uint32_t at, float (&sum)[2][4]) {
  const Fragments<Plan> of(t);
  const std::uint32_t half = of.row_matrices == 1 ? 0 : Fragments<Plan>::kChunks * kMatrixBytes;
  const std::uint32_t bytes = static_cast<std::uint32_t>(of.bytes());
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum[i / 4][i % 4] = 0.0F;
  }
  if (Plan::kGroups == 1 && t.slices == 4) {  // the common counts without a loop
    add_slices<4>(at, half, bytes, sum);
  } else if (Plan::kGroups == 1 && t.slices == 2) {
    add_slices<2>(at, half, bytes, sum);
  } else {
#pragma unroll 1
    for (int slice = 0; slice < t.slices; ++slice, at += bytes) {
      add_slices<1>(at, half, 0, sum);
    }
  }
}

// Writes 8 neighbouring outputs, a second time if asked, and times the next norm's weight. Returns
// the squares of each four of them.
__device__ inline float2 write_octet(const LinearParams<Bf16>& p, std::int64_t node, int m,
                                     std::int64_t at, const uint4& packed, std::uint32_t weights) {
  *reinterpret_cast<uint4*>(p.y + at) = packed;
  if (p.y_copy != nullptr) {
    *reinterpret_cast<uint4*>(p.y_copy + node * p.y_copy_stride + m) = packed;
  }
  if (p.norm.y_weight == nullptr) {
    return make_float2(0.0F, 0.0F);
  }
  return weigh_octet(packed, load_16(weights), p.norm.y_weighted + at);
}

// 16 rows by 16 nodes (8 rows where the share has no more): sums, scale, activation or residual,
// rounding. Returns the lane's 8 neighbouring outputs of node lane / 2.
template <class Plan, bool kSwiglu>
__device__ inline uint4 finish_matrices(const LinearParams<Bf16>& p, const Tile& t,
                                        const FragmentEnd& end, int unit, const float (&scale)[4]) {
  const Fragments<Plan> of(t);
  const std::uint32_t at = end.sums + static_cast<std::uint32_t>(of.place(0, 2 * unit, 0));
  float sum[2][4];
  add_fragments<Plan>(t, at, sum);
  float up[2][4];
  if constexpr (kSwiglu) {
    add_fragments<Plan>(t, at + static_cast<std::uint32_t>(of.place(1, 0, 0)), up);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    sum[i / 4][i % 4] *= scale[i % 4];
    if constexpr (kSwiglu) {
      up[i / 4][i % 4] *= scale[i % 4];
    }
  }
  if constexpr (kSwiglu) {
    silu_products(sum, up);
  } else if (p.residual != nullptr) {
    std::uint32_t r[4];
    load_matrices_x4_transposed(end.residual + static_cast<std::uint32_t>(unit * 32), r);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[i % 2][i / 2 * 2] += __uint_as_float(r[i] << 16);
      sum[i % 2][i / 2 * 2 + 1] += __uint_as_float(r[i] & 0xFFFF0000U);
    }
  }
  __syncwarp();  // what was turned before is read
  store_matrices_x4_transposed(end.turn, pack_bf16(sum[0][0], sum[0][1]),
                               pack_bf16(sum[1][0], sum[1][1]), pack_bf16(sum[0][2], sum[0][3]),
                               pack_bf16(sum[1][2], sum[1][3]));
  __syncwarp();
  return load_16(end.turned);
}

// By a warp that multiplies: its part of a round's outputs, of node_count nodes from first_node on.
template <class Plan, bool kSwiglu>
__device__ inline void finish_fragments(const LinearParams<Bf16>& p, const Tile& t,
                                        const FragmentEnd& end, int first_node, int node_count) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const bool exists = end.local < node_count;
  const int pair_bits = max(2 - t.slice_bits, 0);  // 2^pair_bits times 16 rows, or 8 rows
  const float scale[4] = {load_4(end.scale), load_4(end.scale + 4), load_4(end.scale + 32),
                          load_4(end.scale + 36)};
  float2 square[2] = {};  // of even and odd 16 rows: the order in which few nodes add them
#pragma unroll 1
  for (int unit = end.first; unit < end.count; unit += end.step) {
    const uint4 packed = finish_matrices<Plan, kSwiglu>(p, t, end, unit, scale);
    const int pair = unit & ((1 << pair_bits) - 1);
    const int row = (unit >> pair_bits) * kGroupRows + pair * 16;
    if (exists && end.m + row < p.m) {
      const float2 added = write_octet(p, first_node + end.local, end.m + row, end.y + row, packed,
                                       end.weights + static_cast<std::uint32_t>(pair * 32));
      square[0].x += unit % 2 == 0 ? added.x : 0.0F;
      square[0].y += unit % 2 == 0 ? added.y : 0.0F;
      square[1].x += unit % 2 == 0 ? 0.0F : added.x;
      square[1].y += unit % 2 == 0 ? 0.0F : added.y;
    }
  }
  if (p.norm.y_squares != nullptr) {
    float first = square[0].x + square[1].x;
    float second = square[0].y + square[1].y;
    first += __shfl_xor_sync(0xFFFFFFFFU, first, 1);
    second += __shfl_xor_sync(0xFFFFFFFFU, second, 1);
    if (lane % 2 == 0 && exists && end.count > 0) {
      atomicAdd(p.norm.y_squares + first_node + end.local, square_sum(first + second));
    }
  }
}

// Where the sums of four neighbouring rows of one node lie, 64 bytes apart: for outputs that are
// written one by one.
template <class Plan>
__device__ inline float4 fragment_quad(const Tile& t, std::uint32_t received, const Quad& quad,
                                       int group) {
  const Fragments<Plan> of(t);
  const int node = quad.local % kMatrixNodes;
  std::uint32_t at =
      received + static_cast<std::uint32_t>(
                     of.place(group, quad.share_row / 8, quad.local / kMatrixNodes) +
                     (quad.share_row % 8 * 4 + node % 8 / 2) * 16 + (node / 8 * 2 + node % 2) * 4);
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 1
  for (int slice = 0; slice < t.slices; ++slice) {
    sum.x += load_4(at);
    sum.y += load_4(at + 64);
    sum.z += load_4(at + 128);
    sum.w += load_4(at + 192);
    at += static_cast<std::uint32_t>(of.bytes());
  }
  return sum;
}

// The same where outputs cannot be written 8 at a time.
template <class Plan>
__device__ inline void finish_elements(const LinearParams<Bf16>& p, const Tile& t,
                                       std::uint32_t received, std::uint32_t scales, int first_node,
                                       int node_count) {
  const int node_step = Plan::kMultiplyThreads >> node_bits<Plan>(p, t);
  Quad quad = quad_of<Plan>(p, t, first_node, node_count, static_cast<int>(threadIdx.x));
#pragma unroll 1
  for (int first = 0; first < node_count; first += node_step) {
    quad.exists = quad.local < node_count;
    float square = 0.0F;
    if (quad.exists && quad.m < p.m) {
      const float scale = load_4(scales + static_cast<std::uint32_t>(quad.local * 4));
      float4 sum = scaled(fragment_quad<Plan>(t, received, quad, quad.group), scale);
      if (p.swiglu) {
        sum = silu_products(sum, scaled(fragment_quad<Plan>(t, received, quad, 1), scale));
      }
      square = write_elements(p, quad, sum);
    }
    add_squares<Plan>(p, t, quad, square);
    quad.local += node_step;
    quad.node += node_step;
  }
}

}  // namespace versieve::kernels
