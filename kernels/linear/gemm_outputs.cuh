// The end of linear/gemm.cu: a warpgroup's finished sums become y, 32 nodes at a time, between the
// products of its next tile. A lane holds rows lane / 4 (+ 8) of its warp's 16 and, of each 8
// nodes, two; outputs are turned by way of stmatrix and written 8 neighbouring ones a lane.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/linear/folded_norm.cuh"
#include "kernels/linear/gemm_plan.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/swiglu/activation.cuh"

namespace versieve::kernels {

__device__ inline float& shared_float(std::uint32_t address) {
  return *static_cast<float*>(__cvta_shared_to_generic(address));
}

inline constexpr int kUnitNodes = 16;  // that a warp turns at once; two units are a part
inline constexpr int kUnitBytes = kUnitNodes * 16 * 2;

// What of finished sums a thread has to do.
struct GemmEnd {
  int first_node, node_count;  // those that are there, of the nodes that it has to do with
  int m;                       // first of the lane's 8 neighbouring outputs
  std::int64_t y;              // and their place, of the first unit
  std::uint32_t scale;         // this lane's, of the first unit
  std::uint32_t turn, turned;  // where a unit is turned: as matrices, as the lane's 8 outputs
  uint4 weights;               // of the next norm
};

// Of the tile's nodes from `first_node` on; `scale` is the first one's.
template <class Plan>
__device__ inline GemmEnd end_of(const GemmParams& s, const Plan& plan, int first_row,
                                 int first_node, std::uint32_t scale, int warp) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t turns = plan.turn(warp);
  const int m = static_cast<int>(s.p.m);
  GemmEnd end;
  end.first_node = first_node;
  end.scale = scale + static_cast<std::uint32_t>(lane % 4 * 2 * 4);
  int node = lane / 2;
  if (s.p.swiglu) {  // 32 nodes by 8 outputs
    node = lane;
    end.m = first_row + warp * 8;
    end.turn = turns + static_cast<std::uint32_t>(lane * 16);
    end.turned = end.turn;
  } else {  // 16 nodes by 16 outputs, halves swapped every four nodes
    const auto turned = [&](int of_node, int half) {
      return turns + static_cast<std::uint32_t>(of_node * 32 + (half ^ (of_node / 4 % 2)) * 16);
    };
    end.m = first_row + warp * 16 + lane % 2 * 8;
    end.turn = turned(lane % 8 + lane / 16 * 8, lane / 8 % 2);
    end.turned = turned(lane / 2, lane % 2);
  }
  end.node_count = end.m < m ? static_cast<int>(s.p.n) - first_node : 0;
  end.y = static_cast<std::int64_t>(first_node + node) * m + end.m;
  if (s.p.norm.y_weight != nullptr && end.m < m) {
    end.weights = *reinterpret_cast<const uint4*>(s.p.norm.y_weight + end.m);
  }
  return end;
}

// By a warpgroup, once the launches before have ended: what the sums of the tile's nodes are
// multiplied by; there for the warpgroup behind its next barrier.
template <class Plan>
__device__ inline void stage_scales(const GemmParams& s, const Plan& plan, const GemmTile& t,
                                    int group, int odd, bool clears) {
  const int thread = static_cast<int>(threadIdx.x % 128);
  if (s.p.norm.x_squares != nullptr) {
#pragma unroll 1
    for (int i = thread; i < Plan::kNodes; i += 128) {
      shared_float(plan.scales(group, odd) + static_cast<std::uint32_t>(i * 4)) =
          input_scale(s.p, t.first_node + i);
    }
  }
  if (clears && t.first_row == 0 && group == 0) {
    clear_squares(s.p, t.first_node,
                  max(0, min(Plan::kNodes, static_cast<int>(s.p.n) - t.first_node)), thread, 128);
  }
}

// The residuals of a part: the lane's 8 of each unit.
struct Residuals {
  uint4 of_unit[2];
};
__device__ inline void load_residuals(const GemmParams& s, const GemmEnd& end, int part,
                                      Residuals& r) {
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    const int unit = part * kPartNodes + u * kUnitNodes;
    if (unit + static_cast<int>(threadIdx.x % 32) / 2 < end.node_count) {
      r.of_unit[u] =
          *reinterpret_cast<const uint4*>(s.p.residual + end.y + unit * static_cast<int>(s.p.m));
    }
  }
}

// 16 rows by 16 nodes [row half][node] of a unit's sums times their scales.
__device__ inline void scaled_unit(const GemmParams& s, std::uint32_t scale, const float (&low)[4],
                                   const float (&high)[4], float (&unit)[2][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unit[i / 2][i % 2] = low[i];
    unit[i / 2][2 + i % 2] = high[i];
  }
  if (s.p.norm.x_squares != nullptr) {
    const float by[4] = {load_4(scale), load_4(scale + 4), load_4(scale + 32), load_4(scale + 36)};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      unit[i / 4][i % 4] *= by[i % 4];
    }
  }
}

// The residuals as the sums lie: through shared memory, which turns them.
__device__ inline void add_residuals(const GemmEnd& end, const Residuals& residuals,
                                     float (&unit)[2][2][4]) {
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    store_16(end.turned + static_cast<std::uint32_t>(u * kUnitBytes), residuals.of_unit[u]);
  }
  __syncwarp();
  std::uint32_t r[2][4];
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    load_matrices_x4_transposed(end.turn + static_cast<std::uint32_t>(u * kUnitBytes), r[u]);
  }
#pragma unroll
  for (int u = 0; u < 2; ++u) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      unit[u][i % 2][i / 2 * 2] += __uint_as_float(r[u][i] << 16);
      unit[u][i % 2][i / 2 * 2 + 1] += __uint_as_float(r[u][i] & 0xFFFF0000U);
    }
  }
  __syncwarp();
}

// Squares of a unit, shares of 16 or 8 rows (slices of K: 4, 8): a warp has all of a share.
__device__ inline void add_unit_squares(const GemmParams& s, const GemmEnd& end, int unit,
                                        float2 square) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (s.slices == 4) {
    square.x += __shfl_xor_sync(0xFFFFFFFFU, square.x, 1);
    square.y += __shfl_xor_sync(0xFFFFFFFFU, square.y, 1);
  }
  if (unit + lane / 2 < end.node_count && (s.slices == 8 || lane % 2 == 0)) {
    atomicAdd(s.p.norm.y_squares + end.first_node + unit + lane / 2,
              square_sum(square.x + square.y));
  }
}

// Squares of a part's quads [node, 16 of the warpgroup's rows], shares of 64 or 32 rows (1, 2).
__device__ inline void add_part_squares(const GemmParams& s, std::uint32_t squares, int first_node,
                                        int group) {
  const int thread = static_cast<int>(threadIdx.x % 128);
  meet_at<128>(1 + group);
  const int node = first_node + thread / 4;
  const int j = thread % 4;
  float v[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[i] = shared_float(squares + static_cast<std::uint32_t>((thread / 4 * 16 + i * 4 + j) * 4));
  }
  const bool one = s.slices == 1;
  float share[2] = {v[0] + (one ? v[2] : v[1]), (one ? v[1] : v[2]) + v[3]};
  if (one) {
    share[0] += share[1];
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    share[i] += __shfl_xor_sync(0xFFFFFFFFU, share[i], 2);
    share[i] += __shfl_xor_sync(0xFFFFFFFFU, share[i], 1);
    if (j == 0 && node < s.p.n && !(one && i == 1)) {
      atomicAdd(s.p.norm.y_squares + node, square_sum(share[i]));
    }
  }
}
__device__ inline void keep_squares(const GemmEnd& end, std::uint32_t squares, int u,
                                    float2 square) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int quad = static_cast<int>(threadIdx.x) / 32 % 4 * 4 + lane % 2 * 2;
  const std::uint32_t to =
      squares + static_cast<std::uint32_t>(((u * kUnitNodes + lane / 2) * 16 + quad) * 4);
  shared_float(to) = square.x;
  shared_float(to + 4) = square.y;
}

// Writes a lane's 8 outputs of a unit; returns their squares where a norm follows.
__device__ inline float2 write_unit(const GemmParams& s, const GemmEnd& end, int unit,
                                    const uint4& packed) {
  float2 square = make_float2(0.0F, 0.0F);
  const int local = unit + static_cast<int>(threadIdx.x % 32) / 2;
  if (local < end.node_count) {
    const std::int64_t at = end.y + unit * static_cast<int>(s.p.m);
    *reinterpret_cast<uint4*>(s.p.y + at) = packed;
    if (s.p.y_copy != nullptr) {
      *reinterpret_cast<uint4*>(s.p.y_copy + (end.first_node + local) * s.p.y_copy_stride + end.m) =
          packed;
    }
    if (s.p.norm.y_weight != nullptr) {
      square = weigh_octet(packed, end.weights, s.p.norm.y_weighted + at);
    }
  }
  return square;
}

// Part kPart of the outputs, whose sums are `sum`[4 kPart ...]. By a whole warpgroup.
template <class Plan, int kPart, int kSums>
__device__ inline void finish_part(const GemmParams& s, const Plan& plan, const GemmEnd& end,
                                   const Residuals& residuals, int group,
                                   const float (&sum)[kSums][4]) {
  const std::uint32_t scale = end.scale + kPart * kPartNodes * 4;
  float unit[2][2][4];
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    scaled_unit(s, scale + static_cast<std::uint32_t>(u * kUnitNodes * 4), sum[kPart * 4 + u * 2],
                sum[kPart * 4 + u * 2 + 1], unit[u]);
  }
  __syncwarp();  // what was turned before is read
  if (s.p.residual != nullptr) {
    add_residuals(end, residuals, unit);
  }
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    store_matrices_x4_transposed(
        end.turn + static_cast<std::uint32_t>(u * kUnitBytes),
        pack_bf16(unit[u][0][0], unit[u][0][1]), pack_bf16(unit[u][1][0], unit[u][1][1]),
        pack_bf16(unit[u][0][2], unit[u][0][3]), pack_bf16(unit[u][1][2], unit[u][1][3]));
  }
  __syncwarp();
  uint4 packed[2];
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    packed[u] = load_16(end.turned + static_cast<std::uint32_t>(u * kUnitBytes));
  }
  const bool own_shares = s.slices >= 4;
  const std::uint32_t squares = plan.squares(group, kPart % 2);
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    const int first = kPart * kPartNodes + u * kUnitNodes;
    const float2 square = write_unit(s, end, first, packed[u]);
    if (s.p.norm.y_squares != nullptr) {
      if (own_shares) {
        add_unit_squares(s, end, first, square);
      } else {
        keep_squares(end, squares, u, square);
      }
    }
  }
  if (s.p.norm.y_squares != nullptr && !own_shares) {
    add_part_squares(s, squares, end.first_node + kPart * kPartNodes, group);
  }
}

// The same under swiglu: of a warp's 16 rows 8 are gate's and 8 up's.
template <int kPart, int kSums>
__device__ inline void finish_products(const GemmParams& s, const GemmEnd& end,
                                       const float (&sum)[kSums][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::uint32_t scale = end.scale + kPart * kPartNodes * 4;
  float gate[2][4];
  float up[2][4];
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    float unit[2][4];
    scaled_unit(s, scale + static_cast<std::uint32_t>(u * kUnitNodes * 4), sum[kPart * 4 + u * 2],
                sum[kPart * 4 + u * 2 + 1], unit);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      gate[u][i] = unit[0][i];
      up[u][i] = unit[1][i];
    }
  }
  silu_products(gate, up);
  __syncwarp();  // what was turned before is read
  store_matrices_x4_transposed(end.turn, pack_bf16(gate[0][0], gate[0][1]),
                               pack_bf16(gate[0][2], gate[0][3]), pack_bf16(gate[1][0], gate[1][1]),
                               pack_bf16(gate[1][2], gate[1][3]));
  __syncwarp();
  const uint4 packed = load_16(end.turned);
  if (kPart * kPartNodes + lane < end.node_count) {
    *reinterpret_cast<uint4*>(s.p.y + end.y + kPart * kPartNodes * static_cast<int>(s.p.m)) =
        packed;
  }
}

}  // namespace versieve::kernels
