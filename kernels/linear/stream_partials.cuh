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
__device__ inline void write_partials(const Tile& t, int group, int first_node, float* made,
                                      const float (&sum)[Plan::kNodes / 8][4]) {
  const int share_bits = t.share_bits();
  const int pitch = (1 << share_bits) + Plan::kPad;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + lane / 4;
#pragma unroll
  for (int columns = 0; columns < Plan::kRoundNodes / 8; ++columns) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + i / 2 * 8;
      const int node = columns * 8 + lane % 4 * 2 + i % 2;
      made[(((row >> share_bits) * Plan::kRoundNodes + node) * Plan::kGroups + group) * pitch +
           t.row_of_share(row)] = sum[first_node / 8 + columns][i];
    }
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
      send_float(received + static_cast<std::uint32_t>(at * 4), barrier,
                 static_cast<unsigned>(row >> share_bits), sum[0][i]);
    }
  }
}

// Sends each other block of the cluster the partial sums of its rows. The barrier is armed first:
// what others send may arrive at once.
template <class Plan>
__device__ inline void exchange_partials(const Tile& t, int node_count, std::uint32_t ring,
                                         std::uint32_t received) {
  const int pitch = ((1 << t.share_bits()) + Plan::kPad) * 4;
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
// Returns what is stored; stores it if `live`.
__device__ inline float4 store_quad(Bf16* to, float4 value, bool live) {
  uint2 packed;
  Bf16* const out = reinterpret_cast<Bf16*>(&packed);
  store_f32(out, value.x);
  store_f32(out + 1, value.y);
  store_f32(out + 2, value.z);
  store_f32(out + 3, value.w);
  if (live) {
    *reinterpret_cast<uint2*>(to) = packed;
  }
  return load_quad(reinterpret_cast<const Bf16*>(&packed));
}

// Four neighbouring outputs that a thread of the finishing block makes.
struct Quad {
  int node, m;       // of all nodes, of the weight's rows
  int local, group;  // node within the part that is finished, group of rows
  int share_row;     // first row within the group's share
  bool exists;
};

// Quad i of the block's share of the rows; the 2^node_bits quads of a node are neighbours.
template <class Plan>
__device__ inline int node_bits(const LinearParams<Bf16>& p, const Tile& t) {
  return t.share_bits() - 2 + (Plan::kGroups == 2 && !p.swiglu ? 1 : 0);
}
template <class Plan>
__device__ inline Quad quad_of(const LinearParams<Bf16>& p, const Tile& t, int first_node,
                               int node_count, int i) {
  const int quad_bits = t.share_bits() - 2;
  const int all_bits = node_bits<Plan>(p, t);
  Quad quad;
  quad.share_row = (i & ((1 << quad_bits) - 1)) * 4;
  quad.group = (i & ((1 << all_bits) - 1)) >> quad_bits;
  quad.local = i >> all_bits;
  quad.node = first_node + quad.local;
  quad.m = t.first_row[quad.group] + (t.slice << t.share_bits()) + quad.share_row;
  quad.exists = quad.local < node_count;
  return quad;
}

// Whether quads are read and written as 8-byte words.
__device__ inline bool whole_quads(const LinearParams<Bf16>& p) {
  const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(p.y) |
                                   reinterpret_cast<std::uintptr_t>(p.residual) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weight) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weighted);
  return p.m % 4 == 0 && addresses % sizeof(uint2) == 0;
}

// What a quad needs beside its sums; 0 where there is none.
struct QuadInputs {
  float4 residual = {}, weight = {};
};
__device__ inline QuadInputs quad_inputs(const LinearParams<Bf16>& p, const Quad& quad) {
  QuadInputs in;
  if (p.residual != nullptr) {
    in.residual = load_quad(p.residual + static_cast<std::int64_t>(quad.node) * p.m + quad.m);
  }
  if (p.norm.y_weight != nullptr) {
    in.weight = load_quad(p.norm.y_weight + quad.m);
  }
  return in;
}

// Writes a whole quad, and times the next norm's weight if there is one. Returns the sum of its
// squares, 0 without a norm.
__device__ inline float write_quad(const LinearParams<Bf16>& p, const Quad& quad,
                                   const QuadInputs& in, float4 sum, bool live = true) {
  const std::int64_t at = static_cast<std::int64_t>(quad.node) * p.m + quad.m;
  if (p.residual != nullptr) {
    sum.x += in.residual.x;
    sum.y += in.residual.y;
    sum.z += in.residual.z;
    sum.w += in.residual.w;
  }
  const float4 y = store_quad(p.y + at, sum, live);
  if (p.norm.y_weight == nullptr) {
    return 0.0F;
  }
  store_quad(
      p.norm.y_weighted + at,
      make_float4(y.x * in.weight.x, y.y * in.weight.y, y.z * in.weight.z, y.w * in.weight.w),
      live);
  return fmaf(y.w, y.w, fmaf(y.z, y.z, fmaf(y.y, y.y, y.x * y.x)));
}

// The same element by element, those past the last row dropped.
__device__ inline float write_elements(const LinearParams<Bf16>& p, const Quad& quad, float4 sum) {
  const std::int64_t at = static_cast<std::int64_t>(quad.node) * p.m + quad.m;
  const float value[4] = {sum.x, sum.y, sum.z, sum.w};
  float square = 0.0F;
  for (int i = 0; i < 4 && quad.m + i < p.m; ++i) {
    store_f32(p.y + at + i,
              p.residual == nullptr ? value[i] : load_f32(p.residual + at + i) + value[i]);
    if (p.norm.y_weight != nullptr) {
      square += weigh_output(p, quad.node, quad.m + i);
    }
  }
  return square;
}

// The sum of the quad's partial sums over the slices, ascending, times `scale`. The block's own
// slice lies in `own`, those of others in `received`, at the same index.
template <class Plan>
__device__ inline float4 add_slices(const Tile& t, const Quad& quad, int group, const float* own,
                                    const float* received, float scale) {
  const int pitch = (1 << t.share_bits()) + Plan::kPad;
  const int first = (quad.local * Plan::kGroups + group) * pitch + quad.share_row;
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 2
  for (int slice = 0; slice < t.slices; ++slice) {
    const float* const partials = slice == t.slice ? own : received;
    const float4 part = *reinterpret_cast<const float4*>(
        partials + slice * (Plan::kRoundNodes * Plan::kGroups * pitch) + first);
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }
  return make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale);
}

// Outputs of a quad; under swiglu of gate and up.
template <class Plan>
__device__ inline float4 quad_sum(const LinearParams<Bf16>& p, const Tile& t, const Quad& quad,
                                  const float* own, const float* received, float scale) {
  const float4 sum = add_slices<Plan>(t, quad, quad.group, own, received, scale);
  if (!p.swiglu) {
    return sum;
  }
  const float4 up = add_slices<Plan>(t, quad, 1, own, received, scale);
  return make_float4(silu_product(sum.x, up.x), silu_product(sum.y, up.y),
                     silu_product(sum.z, up.z), silu_product(sum.w, up.w));
}

// Squares of a node's quads, whose threads are neighbours: added within the warp, blocks add as
// integers. For whole warps.
template <class Plan>
__device__ inline void add_squares(const LinearParams<Bf16>& p, const Tile& t, const Quad& quad,
                                   float square, bool live = true) {
  if (p.norm.y_squares == nullptr) {
    return;
  }
  const int bits = node_bits<Plan>(p, t);
#pragma unroll 1
  for (int distance = 1 << bits >> 1; distance > 0; distance >>= 1) {
    square += __shfl_xor_sync(0xFFFFFFFFU, square, distance);
  }
  if (live && quad.exists && (threadIdx.x & ((1U << bits) - 1)) == 0) {
    atomicAdd(p.norm.y_squares + quad.node, square_sum(square));
  }
}

// Adds the slices' partial sums of this block's share of the rows and writes y, 4 rows a thread.
// `scale` [node_count] multiplies the sums.
template <class Plan>
__device__ inline void finish_rows(const LinearParams<Bf16>& p, const Tile& t, int first_node,
                                   int node_count, const float* own, const float* received,
                                   const float* scale) {
  const int count = node_count << node_bits<Plan>(p, t);
  const bool whole = whole_quads(p);
  for (int i = static_cast<int>(threadIdx.x); i / 32 * 32 < count; i += Plan::kThreads) {
    const Quad quad = quad_of<Plan>(p, t, first_node, node_count, i);
    float square = 0.0F;
    if (quad.exists && quad.m < p.m) {
      const float4 sum = quad_sum<Plan>(p, t, quad, own, received, scale[quad.local]);
      square =
          whole ? write_quad(p, quad, quad_inputs(p, quad), sum) : write_elements(p, quad, sum);
    }
    add_squares<Plan>(p, t, quad, square);
  }
}

}  // namespace versieve::kernels
