// Matrices of decode_layers: a CTA's units of 64 rows and a slice of K times the node's row, with
// the products of kernels/linear/stream.cu (64-row wgmma, steps of 16 ascending, slices added
// ascending by the CTA that finishes the rows), so with its bits.
#pragma once

#include "kernels/common/device_element.cuh"
#include "kernels/decode_layers/work.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/wgmma.cuh"

namespace versieve::kernels {

// Upper words of operand descriptors. Weights: rows of 128 bytes, 128-byte swizzle, 1,024 bytes
// between groups of 8 rows. x: eight elements of one row behind another, of as many rows as slices
// are gathered; matrices of 8 rows by 16 bytes stand 16 bytes apart in K for each row, so that row
// i runs through x of slice i and those past the last slice are what follows, whose products nobody
// takes. Lower words: (16-byte words between matrices << 16) + address / 16.
inline constexpr std::uint32_t kWeightOperand = (1U << 30) | (1024U >> 4);
inline constexpr std::uint32_t kRowOperand = 1U;
__device__ __forceinline__ std::uint32_t operand_word(std::uint32_t address, int words) {
  return static_cast<std::uint32_t>(words) << 16 | ((address & 0x3FFFFU) >> 4);
}

__device__ __forceinline__ std::uint64_t operand(std::uint32_t upper, std::uint32_t lower) {
  return static_cast<std::uint64_t>(upper) << 32 | lower;
}

// x past its `count` pairs of words of each row, up to whole stages.
__device__ __forceinline__ void clear_tail(uint2* x, int count, int rows) {
  constexpr int kPairs = kStageBoxes * static_cast<int>(kLinearTileK) / 4;
  const int end = (count + kPairs - 1) / kPairs * kPairs;
  const int i = count * rows + static_cast<int>(threadIdx.x);
  if (i < end * rows) {
    x[i] = make_uint2(0U, 0U);
  }
}

// Where pair `i` of a row goes whose slices of `count` pairs are gathered.
__device__ __forceinline__ int gathered_place(int i, int count) {
  int slice = 0;
#pragma unroll
  for (int j = 1; j < kMostGathered; ++j) {
    slice += i >= j * count ? 1 : 0;
  }
  const int place = i - slice * count;
  return (place / 2 * kMostGathered + slice) * 2 + place % 2;
}

// `rows` slices of `count` pairs of words (4 elements each) from packets into x.
__device__ __forceinline__ void receive_row(const DecodeCta& c, const uint2* from, int count,
                                            int rows, unsigned epoch) {
  constexpr int kFlying = 4;
  const int thread = static_cast<int>(threadIdx.x);
  const int pairs = count * rows;
  uint2* const x = reinterpret_cast<uint2*>(c.shared.work);
  bool first = true;
#pragma unroll 1
  for (int base = 0; base < pairs; base += kFlying * kComputeThreads) {
    const int mine =
        min(max((pairs - base - thread + kComputeThreads - 1) / kComputeThreads, 0), kFlying);
    uint4 packets[kFlying];
    receive(from + (base + thread) * 2, 2 * kComputeThreads, mine, epoch, packets);
    if (first) {
      compute_sync();  // the row before has been read
      first = false;
    }
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      if (i < mine) {
        const int pair = base + thread + i * kComputeThreads;
        x[rows > 1 ? gathered_place(pair, count) : pair] = make_uint2(packets[i].x, packets[i].z);
      }
    }
  }
  clear_tail(x, count, rows);
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
  clear_tail(x, count, 1);
  fence_for_copies();
  compute_sync();
}

inline constexpr std::uint32_t kBoxSteps = kLinearTileK / 16;
inline constexpr std::uint32_t kStageSteps = kStageBoxes * kBoxSteps;

// A warpgroup's products of 64 rows, whole stages: x is zero past the unit's slice of K. `each`
// stages hold the same K tiles, of which this group takes number `group`; `words`: of 16 bytes from
// one matrix of x to the next.
template <int kWords>
__device__ __forceinline__ void multiply(const DecodeCta& c, StageCursor at, int count, int each,
                                         int group, float (&sum)[1][4]) {
  const bool signals = threadIdx.x % 32 == 0;
  std::uint32_t x = operand_word(shared_address(c.shared.work), kWords);
  at.advance(group);
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    barrier_wait(c.full(at.place), at.parity);
    // The same in a warp, and behind the wait the compiler knows it: one transfer to uniform
    // registers instead of one for each product.
    const std::uint32_t a = __shfl_sync(0xFFFFFFFFU, operand_word(c.stage(at.place), 1), 0);
    const std::uint32_t b = __shfl_sync(0xFFFFFFFFU, x, 0);
    wgmma_fence();
#pragma unroll
    for (std::uint32_t i16 = 0; i16 < kStageSteps; ++i16) {
      wgmma<8>(
          sum,
          operand(kWeightOperand, a + i16 / kBoxSteps * (kBoxBytes / 16) + i16 % kBoxSteps * 2),
          operand(kRowOperand, b + i16 * 2 * kWords));
    }
    wgmma_commit();
    x += kStageSteps * 2 * kWords;
    wgmma_wait<0>();
    if (signals) {
      barrier_arrive(c.empty(at.place));
    }
    at.advance(each);
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
// shared.sums, those of gathered slices one behind the other.
__device__ __forceinline__ void make_sums(const DecodeCta& c, const DecodeMatrix& m, int unit,
                                          int groups, bool finishes, StageCursor& at,
                                          uint2* partials, unsigned epoch) {
  const int warp = c.warp;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int group = __shfl_sync(0xFFFFFFFFU, warp / 4, 0);
  const KRange k(m, unit);
  if (group < groups) {
    float sum[1][4] = {};
    if (m.gathered > 1) {
      multiply<kMostGathered>(c, at, stages_of(k.count), groups, group, sum);
    } else {
      multiply<1>(c, at, stages_of(k.count), groups, group, sum);
    }
    const int row = warp % 4 * 16 + lane / 4;
    // Of gathered slices a warp's is the column that it keeps.
    const int column = (warp % 4 * m.gathered) >> 2;
    if (lane % 4 == column / 2) {
      if (m.whole()) {
        const bool odd = column % 2 != 0;
        c.shared.sums[group][row] = 0.0F + (odd ? sum[0][1] : sum[0][0]);  // -0 becomes 0
        c.shared.sums[group][row + 8] = 0.0F + (odd ? sum[0][3] : sum[0][2]);
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
  if (m.whole()) {
    compute_sync();
  } else if (warp == 0 && finishes) {
    add_slices(c, m, unit, groups, partials, epoch);
  }
}

}  // namespace versieve::kernels
