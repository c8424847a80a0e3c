// The end of linear/stream.cu for few nodes: a block adds the slices' partial sums of its share of
// the rows and writes y, four rows a thread. With many nodes (stream_fragments.cuh) outputs that
// cannot be written 8 at a time take parts of it.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/linear/folded_norm.cuh"
#include "kernels/linear/stream_plan.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/swiglu/activation.cuh"

namespace versieve::kernels {

// Four neighbouring elements of a row; memory is read and written in 8-byte words.
__device__ inline float4 unpack_quad(uint2 packed) {
  return make_float4(__uint_as_float(packed.x << 16), __uint_as_float(packed.x & 0xFFFF0000U),
                     __uint_as_float(packed.y << 16), __uint_as_float(packed.y & 0xFFFF0000U));
}
__device__ inline float4 load_quad(const Bf16* from) {
  return unpack_quad(*reinterpret_cast<const uint2*>(from));
}
// Returns what is stored; stores it if `live`, to `also` too if not null.
__device__ inline float4 store_quad(Bf16* to, float4 value, bool live = true,
                                    Bf16* also = nullptr) {
  uint2 packed;
  Bf16* const out = reinterpret_cast<Bf16*>(&packed);
  store_f32(out, value.x);
  store_f32(out + 1, value.y);
  store_f32(out + 2, value.z);
  store_f32(out + 3, value.w);
  if (live) {
    *reinterpret_cast<uint2*>(to) = packed;
    if (also != nullptr) {
      *reinterpret_cast<uint2*>(also) = packed;
    }
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
  quad.m = (quad.group == 0 ? t.first_row[0] : t.first_row[1]) + (t.slice << t.share_bits()) +
           quad.share_row;
  quad.exists = quad.local < node_count;
  return quad;
}

// Whether quads are read and written as 8-byte words.
__device__ inline bool whole_quads(const LinearParams<Bf16>& p) {
  const std::uintptr_t addresses = reinterpret_cast<std::uintptr_t>(p.y) |
                                   reinterpret_cast<std::uintptr_t>(p.y_copy) |
                                   reinterpret_cast<std::uintptr_t>(p.residual) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weight) |
                                   reinterpret_cast<std::uintptr_t>(p.norm.y_weighted);
  return p.m % 4 == 0 && p.y_copy_stride % 4 == 0 && addresses % sizeof(uint2) == 0;
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

// Writes a whole quad, a second time if asked, and times the next norm's weight if there is one.
// Returns the sum of its squares, 0 without a norm.
__device__ inline float write_quad(const LinearParams<Bf16>& p, const Quad& quad,
                                   const QuadInputs& in, float4 sum, bool live = true) {
  const std::int64_t at = static_cast<std::int64_t>(quad.node) * p.m + quad.m;
  if (p.residual != nullptr) {
    sum.x += in.residual.x;
    sum.y += in.residual.y;
    sum.z += in.residual.z;
    sum.w += in.residual.w;
  }
  Bf16* const also =
      p.y_copy == nullptr ? nullptr : p.y_copy + quad.node * p.y_copy_stride + quad.m;
  const float4 y = store_quad(p.y + at, sum, live, also);
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
    if (p.y_copy != nullptr) {
      p.y_copy[quad.node * p.y_copy_stride + quad.m + i] = p.y[at + i];
    }
    if (p.norm.y_weight != nullptr) {
      square += weigh_output(p, quad.node, quad.m + i);
    }
  }
  return square;
}

// Where the partial sums of a quad lie in a slice's array.
template <class Plan>
__device__ inline int place_of(const Tile& t, const Quad& quad) {
  const int pitch = (1 << t.share_bits()) + Plan::kPad;
  return (quad.local * Plan::kGroups + quad.group) * pitch + quad.share_row;
}

// Sum over the slices, ascending, of a quad's partial sums at `at`.
template <class Plan>
__device__ inline float4 add_slices(const Tile& t, int at, const float* partials) {
  const int array = Plan::kRoundNodes * Plan::kGroups * ((1 << t.share_bits()) + Plan::kPad);
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 2
  for (int slice = 0; slice < t.slices; ++slice) {
    const float4 part = *reinterpret_cast<const float4*>(partials + slice * array + at);
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }
  return sum;
}

__device__ inline float4 scaled(float4 sum, float scale) {
  return make_float4(sum.x * scale, sum.y * scale, sum.z * scale, sum.w * scale);
}
__device__ inline float4 silu_products(float4 gate, float4 up) {
  return make_float4(silu_product(gate.x, up.x), silu_product(gate.y, up.y),
                     silu_product(gate.z, up.z), silu_product(gate.w, up.w));
}

// Outputs of one quad; under swiglu of gate and up.
template <class Plan>
__device__ inline float4 quad_sum(const LinearParams<Bf16>& p, const Tile& t, const Quad& quad,
                                  const float* partials, float scale) {
  const int at = place_of<Plan>(t, quad);
  const float4 sum = scaled(add_slices<Plan>(t, at, partials), scale);
  if (!p.swiglu) {
    return sum;
  }
  const int up_at = at + (1 << t.share_bits()) + Plan::kPad;
  return silu_products(sum, scaled(add_slices<Plan>(t, up_at, partials), scale));
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

}  // namespace versieve::kernels
