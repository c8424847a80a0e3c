// Matrices of decode_layers: a CTA's units of 64 rows and a slice of K times the node's row, with
// the products of kernels/linear/stream.cu (64-row wgmma, steps of 16 ascending, slices added
// ascending by the CTA that finishes the rows), so with its bits.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/decode_layers/work.cuh"
#include "kernels/linear/wgmma.cuh"

namespace versieve::kernels {

// Upper words of operand descriptors. Weights: rows of 128 bytes, 128-byte swizzle, 1,024 bytes
// between groups of 8 rows. x: one row of elements in a piece; matrices of 8 rows by 16 bytes stand
// 16 bytes apart in K, so that row 0 runs through x and rows 1 to 7 are what follows, whose
// products nobody takes. Lower words: (1 << 16) + address / 16.
inline constexpr std::uint32_t kWeightOperand = (1U << 30) | (1024U >> 4);
inline constexpr std::uint32_t kRowOperand = 1U;
__device__ __forceinline__ std::uint32_t operand_word(std::uint32_t address) {
  return (1U << 16) | ((address & 0x3FFFFU) >> 4);
}

__device__ __forceinline__ std::uint64_t operand(std::uint32_t upper, std::uint32_t lower) {
  return static_cast<std::uint64_t>(upper) << 32 | lower;
}

// x past its `count` pairs of words, up to whole stages.
__device__ __forceinline__ void clear_tail(uint2* x, int count) {
  constexpr int kPairs = kStageBoxes * static_cast<int>(kLinearTileK) / 4;
  const int end = (count + kPairs - 1) / kPairs * kPairs;
  const int i = count + static_cast<int>(threadIdx.x);
  if (i < end) {
    x[i] = make_uint2(0U, 0U);
  }
}

// `count` pairs of words (4 elements each) from packets into x.
__device__ __forceinline__ void receive_row(const DecodeCta& c, const uint2* from, int count,
                                            unsigned epoch) {
  constexpr int kFlying = 4;
  const int thread = static_cast<int>(threadIdx.x);
  uint2* const x = reinterpret_cast<uint2*>(c.shared.work);
  bool first = true;
#pragma unroll 1
  for (int base = 0; base < count; base += kFlying * kComputeThreads) {
    const int mine =
        min(max((count - base - thread + kComputeThreads - 1) / kComputeThreads, 0), kFlying);
    uint4 packets[kFlying];
    receive(from + (base + thread) * 2, 2 * kComputeThreads, mine, epoch, packets);
    if (first) {
      compute_sync();  // the row before has been read
      first = false;
    }
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      if (i < mine) {
        x[base + thread + i * kComputeThreads] = make_uint2(packets[i].x, packets[i].z);
      }
    }
  }
  clear_tail(x, count);
  fence_for_copies();
  compute_sync();
}
// The same from memory that an earlier launch wrote.
__device__ __forceinline__ void read_row(const DecodeCta& c, const Bf16* from, int count) {
  uint2* const x = reinterpret_cast<uint2*>(c.shared.work);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kComputeThreads) {
    x[i] = __ldcg(reinterpret_cast<const uint2*>(from) + i);
  }
  clear_tail(x, count);
  fence_for_copies();
  compute_sync();
}

// Stages of `boxes` boxes.
__device__ __forceinline__ int stages_of(int boxes) {
  return (boxes + kStageBoxes - 1) / kStageBoxes;
}

// Products of a box: four steps of 16.
__device__ __forceinline__ void multiply_box(std::uint32_t a, std::uint32_t b, float (&sum)[1][4]) {
#pragma unroll
  for (std::uint32_t step = 0; step < kLinearTileK / 16; ++step) {
    wgmma<8>(sum, operand(kWeightOperand, a + 2 * step), operand(kRowOperand, b + 2 * step));
  }
}

// A warpgroup's products of 64 rows, whole stages: x is zero past the unit's slice of K. `each`
// stages hold the same K tiles, of which this group takes number `group`.
__device__ __forceinline__ void multiply(const DecodeCta& c, StageCursor at, int count, int each,
                                         int group, float (&sum)[1][4]) {
  const bool signals = threadIdx.x % 32 == 0;
  std::uint32_t x = operand_word(shared_address(c.shared.work));
  at.advance(group);
  int before = 0;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    barrier_wait(c.full(at.place), at.parity);
    // The same in a warp, and behind the wait the compiler knows it: one transfer to uniform
    // registers instead of one for each product.
    const std::uint32_t a = __shfl_sync(0xFFFFFFFFU, operand_word(c.stage(at.place)), 0);
    const std::uint32_t b = __shfl_sync(0xFFFFFFFFU, x, 0);
    wgmma_fence();
#pragma unroll
    for (std::uint32_t box = 0; box < kStageBoxes; ++box) {
      multiply_box(a + box * (kBoxBytes / 16), b + box * (kLinearTileK * 2 / 16), sum);
    }
    wgmma_commit();
    x += kStageBoxes * kLinearTileK * 2 / 16;
    wgmma_wait<1>();
    if (i > 0 && signals) {
      barrier_arrive(c.empty(before));
    }
    before = at.place;
    at.advance(each);
  }
  wgmma_wait<0>();
  if (signals) {
    barrier_arrive(c.empty(before));
  }
}

// Where a quad of finished rows goes.
struct RowQuad {
  int row;        // first of the four, of the matrix
  bool finishes;  // this lane has one
  bool exists;    // and its rows are there
};

// This lane's quad of the share that unit `unit` finishes; lanes of warp 0.
__device__ __forceinline__ RowQuad quad_of_unit(const DecodeMatrix& m, int unit) {
  const int lane = static_cast<int>(threadIdx.x);
  const int slice = unit & ((1 << m.slice_bits) - 1);
  const int share = kMatrixRows >> m.slice_bits;
  RowQuad quad;
  quad.finishes = lane < share / 4;
  quad.row = (unit >> m.slice_bits) * kMatrixRows + slice * share + lane * 4;
  quad.exists = quad.finishes && quad.row < m.rows;
  return quad;
}

// Sums of the rows that this unit finishes over the slices, ascending, into shared.sums; warp 0.
__device__ __forceinline__ void add_slices(const DecodeCta& c, const DecodeMatrix& m, int unit,
                                           int groups, const uint2* partials, unsigned epoch) {
  const int lane = static_cast<int>(threadIdx.x);
  const int slices = 1 << m.slice_bits;
  const int share = kMatrixRows >> m.slice_bits;
  const int block = unit >> m.slice_bits;
  const int row = (unit & (slices - 1)) * share + lane;
#pragma unroll 1
  for (int group = 0; group < groups && lane < share; ++group) {
    uint4 x[kLinearMostSlices / 2];
    receive(partials + (((block * groups + group) * kMatrixRows + row) << m.slice_bits), 2,
            slices / 2, epoch, x);
    float sum = 0.0F;
#pragma unroll
    for (int i = 0; i < kLinearMostSlices / 2; ++i) {
      if (i < slices / 2) {
        sum += __uint_as_float(x[i].x);
        sum += __uint_as_float(x[i].z);
      }
    }
    c.shared.sums[group][lane] = sum;
  }
  __syncwarp();
}

// A unit's products; on return warp 0 finds the sums of the rows that it finishes, if it does, in
// shared.sums.
__device__ __forceinline__ void make_sums(const DecodeCta& c, const DecodeMatrix& m, int unit,
                                          int groups, bool finishes, StageCursor& at,
                                          uint2* partials, unsigned epoch) {
  const int warp = c.warp;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = __shfl_sync(0xFFFFFFFFU, warp / 4, 0);
  const KRange k(m, unit);
  if (group < groups) {
    float sum[1][4] = {};
    multiply(c, at, stages_of(k.count), groups, group, sum);
    const int row = warp % 4 * 16 + lane / 4;
    if (lane % 4 == 0) {
      if (m.slice_bits == 0) {
        c.shared.sums[group][row] = 0.0F + sum[0][0];  // as a sum over slices: -0 becomes 0
        c.shared.sums[group][row + 8] = 0.0F + sum[0][2];
      } else {
        const int slice = unit & ((1 << m.slice_bits) - 1);
        const int block = unit >> m.slice_bits;
        uint2* const to =
            partials + ((((block * groups + group) * kMatrixRows + row) << m.slice_bits) + slice);
        send_packet(to, __float_as_uint(sum[0][0]), epoch);
        send_packet(to + (8 << m.slice_bits), __float_as_uint(sum[0][2]), epoch);
      }
    }
  }
#pragma unroll 1
  for (int left = stages_of(k.count) * groups; left > 0; left -= kMostStages) {
    at.advance(min(left, kMostStages));
  }
  if (m.slice_bits == 0) {
    compute_sync();
  } else if (warp == 0 && finishes) {
    add_slices(c, m, unit, groups, partials, epoch);
  }
}

}  // namespace versieve::kernels
