// The end of linear/stream.cu: a block adds the slices' partial sums of its share of the rows and
// writes y, four rows a thread at a time.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/linear/async_copy.cuh"
#include "kernels/linear/folded_norm.cuh"
#include "kernels/linear/stream_plan.cuh"
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

// Sums over the slices, ascending, of kQuads quads' partial sums, at `at` and `step` further on;
// only `count` of them are read. The block's own slice lies in `own`, those of others in
// `received`.
template <class Plan, int kQuads>
__device__ inline void add_slices(const Tile& t, int at, int step, int count, const float* own,
                                  const float* received, float4 (&sum)[kQuads]) {
  constexpr int kTurns = kQuads == 1 ? 2 : 1;  // slices whose loads are on their way together
  const int array = Plan::kRoundNodes * Plan::kGroups * ((1 << t.share_bits()) + Plan::kPad);
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    sum[q] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  }
#pragma unroll kTurns
  for (int slice = 0; slice < t.slices; ++slice) {
    const float* const from = (slice == t.slice ? own : received) + slice * array + at;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (q < count) {
        const float4 part = *reinterpret_cast<const float4*>(from + q * step);
        sum[q].x += part.x;
        sum[q].y += part.y;
        sum[q].z += part.z;
        sum[q].w += part.w;
      }
    }
  }
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
                                  const float* own, const float* received, float scale) {
  const int at = place_of<Plan>(t, quad);
  float4 sum[1];
  add_slices<Plan>(t, at, 0, 1, own, received, sum);
  if (!p.swiglu) {
    return scaled(sum[0], scale);
  }
  float4 up[1];
  add_slices<Plan>(t, at + (1 << t.share_bits()) + Plan::kPad, 0, 1, own, received, up);
  return silu_products(scaled(sum[0], scale), scaled(up[0], scale));
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

// Many nodes: what the end needs beside the sums. All quads of a thread lie in the same columns.
struct EndInputs {
  float4 weight = {};          // of the next norm
  bool whole = false;          // quads are read and written as 8-byte words
  const uint2* residual = {};  // of the tile's quads in shared memory, or null
};
// Before the wait: `weight` is one. `staged` is where residuals will lie, if they fit.
template <class Plan>
__device__ inline EndInputs end_inputs(const LinearParams<Bf16>& p, const Tile& t,
                                       const unsigned char* staged) {
  EndInputs in{.whole = whole_quads(p)};
  const Quad own = quad_of<Plan>(p, t, t.first_node, t.node_count, static_cast<int>(threadIdx.x));
  if (in.whole && p.norm.y_weight != nullptr && own.m < p.m) {
    in.weight = load_quad(p.norm.y_weight + own.m);
  }
  if (in.whole && p.residual != nullptr &&
      t.node_count << node_bits<Plan>(p, t) <= Plan::kResidualQuads) {
    in.residual = reinterpret_cast<const uint2*>(staged);
  }
  return in;
}
// After the wait.
template <class Plan>
__device__ inline void fetch_residuals(const LinearParams<Bf16>& p, const Tile& t,
                                       const EndInputs& in) {
  const int bits = node_bits<Plan>(p, t);
  const int thread = static_cast<int>(threadIdx.x);
  const Quad own = quad_of<Plan>(p, t, t.first_node, t.node_count, thread);
  if (in.residual == nullptr || own.m >= p.m) {
    return;
  }
#pragma unroll 1
  for (int i = thread; i < t.node_count << bits; i += Plan::kMultiplyThreads) {
    const std::int64_t node = t.first_node + (i >> bits);
    fetch_8(shared_address(in.residual + i), p.residual + node * p.m + own.m);
  }
}

// What finish_rows works on, besides.
struct RowsToFinish {
  int first_local, node_count;  // nodes of the tile
  const float *own, *received;  // partial sums
  const float* scale;           // [node_count], of the sums
};

// Outputs that cannot be written as whole quads.
template <class Plan>
__device__ inline void finish_elements(const LinearParams<Bf16>& p, const Tile& t,
                                       const RowsToFinish& rows, Quad quad, int node_step) {
#pragma unroll 1
  for (int first = 0; first < rows.node_count; first += node_step) {
    quad.exists = quad.local < rows.node_count;
    float square = 0.0F;
    if (quad.exists && quad.m < p.m) {
      square = write_elements(
          p, quad, quad_sum<Plan>(p, t, quad, rows.own, rows.received, rows.scale[quad.local]));
    }
    add_squares<Plan>(p, t, quad, square);
    quad.local += node_step;
    quad.node += node_step;
  }
}

// Adds the slices' partial sums of this block's share of the rows and writes y, 4 rows a thread of
// the warps that multiply, for two nodes at a time.
template <class Plan, bool kSwiglu>
__device__ inline void finish_quads(const LinearParams<Bf16>& p, const Tile& t,
                                    const RowsToFinish& rows, const EndInputs& in, Quad quad,
                                    int node_step) {
  const int pitch = (1 << t.share_bits()) + Plan::kPad;
  const int step = node_step * Plan::kGroups * pitch;
  int at = place_of<Plan>(t, quad);
  const uint2* residual = in.residual + (rows.first_local << node_bits<Plan>(p, t)) + threadIdx.x;
#pragma unroll 1
  for (int first = 0; first < rows.node_count; first += 2 * node_step) {
    const int left = quad.m < p.m ? rows.node_count - quad.local : 0;
    const int count = left <= 0 ? 0 : left <= node_step ? 1 : 2;
    float4 sum[2], up[2];
    add_slices<Plan>(t, at, step, count, rows.own, rows.received, sum);
    if constexpr (kSwiglu) {
      add_slices<Plan>(t, at + pitch, step, count, rows.own, rows.received, up);
    }
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      float square = 0.0F;
      quad.exists = q < count;
      if (quad.exists) {
        const float scale = rows.scale[quad.local];
        sum[q] = scaled(sum[q], scale);
        if constexpr (kSwiglu) {
          store_quad(p.y + static_cast<std::int64_t>(quad.node) * p.m + quad.m,
                     silu_products(sum[q], scaled(up[q], scale)));
        } else {
          QuadInputs with{.weight = in.weight};
          if (in.residual != nullptr) {
            with.residual = unpack_quad(*residual);
          } else if (p.residual != nullptr) {
            with.residual =
                load_quad(p.residual + static_cast<std::int64_t>(quad.node) * p.m + quad.m);
          }
          square = write_quad(p, quad, with, sum[q]);
        }
      }
      if constexpr (!kSwiglu) {
        add_squares<Plan>(p, t, quad, square);
      }
      quad.local += node_step;
      quad.node += node_step;
      residual += Plan::kMultiplyThreads;
    }
    at += 2 * step;
  }
}

template <class Plan>
__device__ inline void finish_rows(const LinearParams<Bf16>& p, const Tile& t,
                                   const RowsToFinish& rows, const EndInputs& in) {
  const int node_step = Plan::kMultiplyThreads >> node_bits<Plan>(p, t);
  const Quad quad = quad_of<Plan>(p, t, t.first_node + rows.first_local, rows.node_count,
                                  static_cast<int>(threadIdx.x));
  if (!in.whole) {
    finish_elements<Plan>(p, t, rows, quad, node_step);
  } else if (Plan::kGroups == 2 && p.swiglu) {  // one group: never
    finish_quads<Plan, true>(p, t, rows, in, quad, node_step);
  } else {
    finish_quads<Plan, false>(p, t, rows, in, quad, node_step);
  }
}

}  // namespace versieve::kernels
