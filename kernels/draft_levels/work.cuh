// A CTA of draft_levels: what all of them share. A CTA does one thing in every pass (a pass is a
// level's nodes going through the head's layer); weights lie in its shared memory from the start,
// rows come and go in packets.
#pragma once

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/draft_levels/plan.h"
#include "kernels/ptx/async_copy.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/packets.cuh"
#include "kernels/ptx/shared_memory.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/rms_norm/square_sum.cuh"

namespace versieve::kernels {

inline constexpr int kDraftThreads = 32 * 4 * static_cast<int>(kDraftWarpgroups);
inline constexpr int kFinishAt = kDraftThreads / 2;  // first of the threads that finish rows
inline constexpr int kDraftMatrixRows = static_cast<int>(kLinearGroupRows);
inline constexpr int kRowQuads = kDraftMatrixRows / 4;  // of a row of 64 outputs
inline constexpr int kPartialPitch = kDraftMatrixRows + 4;
inline constexpr int kWeightTileBytes = 8192;  // 64 rows by 64 of K
inline constexpr int kHeadDim = static_cast<int>(kDraftHeadDim);
inline constexpr int kMostRows = static_cast<int>(kDraftRows);
inline constexpr int kMostEntries = static_cast<int>(kDraftEntries);

struct DraftCta {
  const DraftLevelsArguments& a;
  unsigned char* shared;  // on a multiple of 1,024
  int index;              // among those of its role
  unsigned epoch;         // of the launch before

  __device__ __forceinline__ unsigned epoch_of(int pass) const {
    return epoch + 1U + static_cast<unsigned>(pass);
  }
  // Rows whose outputs a pass makes.
  __device__ __forceinline__ int rows(int pass) const { return pass == 0 ? 1 : a.width; }
  // Rows of features that a pass begins with: entries, or the outputs of the pass before.
  __device__ __forceinline__ int features(int pass) const {
    return pass == 0 ? a.entries : rows(pass - 1);
  }
  __device__ __forceinline__ uint2* mail(int pass, int pair) const {
    return a.packets + 2 * ((pass & 1) * a.mail.half + pair);
  }
};

// Where 16 bytes of K lie in a tile of rows of 128 bytes, swizzled as wgmma reads them.
__device__ __forceinline__ std::uint32_t swizzled(int row, int piece) {
  return static_cast<std::uint32_t>(row * 128 + (((piece & 7) ^ (row & 7)) << 4));
}

// 64 rows of k columns from `from` (rows `stride` apart; the last of `rows` stands for those beyond
// it) as tiles of 64 columns. On its way until await_fetched().
__device__ __forceinline__ void load_weights(const Bf16* from, int stride, int k, int rows,
                                             std::uint32_t to) {
  const int pieces = k / 8;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kDraftMatrixRows * pieces;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / pieces;
    const int piece = i - row * pieces;
    fetch_16(to + static_cast<std::uint32_t>(piece / 8 * kWeightTileBytes) + swizzled(row, piece),
             from + static_cast<std::int64_t>(min(row, rows - 1)) * stride + piece * 8);
  }
}

// A warpgroup's products of 64 rows and kRows rows of x over `tiles` tiles of K, in the order of
// kernels/linear/stream.cu.
template <int kRows>
__device__ __forceinline__ void multiply_tiles(std::uint32_t weights, std::uint32_t x,
                                               std::uint32_t x_step, int tiles,
                                               float (&sum)[kRows / 8][4]) {
  std::uint64_t a = wgmma_operand(__shfl_sync(0xFFFFFFFFU, weights, 0));
  std::uint64_t b = wgmma_operand(__shfl_sync(0xFFFFFFFFU, x, 0));
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < static_cast<int>(kLinearTileK) / 16; ++step) {
      wgmma<kRows>(sum, a + static_cast<std::uint64_t>(2 * step),
                   b + static_cast<std::uint64_t>(2 * step));
    }
    wgmma_commit();
    a += kWeightTileBytes / 16;
    b += x_step / 16;
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
}

// A warpgroup's sums to [node][64 + pad].
template <int kRows>
__device__ __forceinline__ void keep_sums(const float (&sum)[kRows / 8][4], float* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane / 4;
#pragma unroll
  for (int columns = 0; columns < kRows / 8; ++columns) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[(columns * 8 + lane % 4 * 2 + i % 2) * kPartialPitch + row + i / 2 * 8] = sum[columns][i];
    }
  }
}

// Shared memory of a CTA that multiplies.
struct DraftProduct {
  std::uint32_t weights;  // [groups, K tiles]: 64 rows each
  unsigned char* x;       // [K tiles]: kRows rows of 128 bytes
  float* sums;            // [warpgroup, kRows, 64 + pad]
};
template <int kRows>
__device__ __forceinline__ DraftProduct product_memory(const DraftCta& c, int k_tiles, int groups) {
  unsigned char* const x = c.shared + groups * k_tiles * kWeightTileBytes;
  return {.weights = shared_address(c.shared),
          .x = x,
          .sums = reinterpret_cast<float*>(x + k_tiles * kRows * 128)};
}

// A warpgroup's products of its group and slice of K, and its sums.
template <int kRows>
__device__ __forceinline__ void multiply_slice(const DraftProduct& at, const DraftMatrix& m,
                                               int warpgroup) {
  const int slice = warpgroup & (m.slices - 1);
  const int group = warpgroup >> m.slice_bits;
  const int first = m.first_tile(slice);
  float sum[kRows / 8][4] = {};
  multiply_tiles<kRows>(
      at.weights + static_cast<std::uint32_t>((group * m.k_tiles + first) * kWeightTileBytes),
      shared_address(at.x) + static_cast<std::uint32_t>(first * kRows * 128), kRows * 128,
      m.first_tile(slice + 1) - first, sum);
  keep_sums<kRows>(sum, at.sums + warpgroup * kRows * kPartialPitch);
}
__device__ __forceinline__ int own_warpgroup() {
  return __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / 128, 0);
}

// Products of x, which lies there, with all groups and slices, a warpgroup each. Before: x is
// stored by any thread. Then the sums are there behind a barrier.
template <int kRows>
__device__ __forceinline__ void multiply_rows(const DraftProduct& at, const DraftMatrix& m,
                                              int groups) {
  fence_for_copies();
  __syncthreads();
  const int warpgroup = own_warpgroup();
  if (warpgroup < groups << m.slice_bits) {
    multiply_slice<kRows>(at, m, warpgroup);
  }
}

// Four neighbouring outputs of a row, made by one of the threads from kFinishAt on.
struct DraftQuad {
  int node, quad;
  __device__ __forceinline__ DraftQuad()
      : node(threadIdx.x < kFinishAt ? -1
                                     : (static_cast<int>(threadIdx.x) - kFinishAt) / kRowQuads),
        quad(static_cast<int>(threadIdx.x) % kRowQuads) {}
  __device__ __forceinline__ bool within(int rows) const { return node >= 0 && node < rows; }
};

// Sums over the slices, ascending, of a group.
template <int kRows>
__device__ __forceinline__ float4 add_slices(const float* sums, const DraftMatrix& m, int group,
                                             const DraftQuad& q) {
  float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 1
  for (int slice = 0; slice < m.slices; ++slice) {
    const float4 part = *reinterpret_cast<const float4*>(
        sums + (((group << m.slice_bits) + slice) * kRows + q.node) * kPartialPitch + q.quad * 4);
    sum.x += part.x;
    sum.y += part.y;
    sum.z += part.z;
    sum.w += part.w;
  }
  return sum;
}

// Four elements as two words, and back.
__device__ __forceinline__ uint2 rounded_quad(float4 value) {
  uint2 packed;
  Bf16* const out = reinterpret_cast<Bf16*>(&packed);
  store_f32(out, value.x);
  store_f32(out + 1, value.y);
  store_f32(out + 2, value.z);
  store_f32(out + 3, value.w);
  return packed;
}
__device__ __forceinline__ float4 quad_values(unsigned first, unsigned second) {
  return make_float4(__uint_as_float(first << 16), __uint_as_float(first & 0xFFFF0000U),
                     __uint_as_float(second << 16), __uint_as_float(second & 0xFFFF0000U));
}
__device__ __forceinline__ float4 received_quad(const uint2* at, unsigned epoch) {
  const uint4 x = receive(at, epoch);
  return quad_values(x.x, x.z);
}

// A lane of each warp looks until a packet is there. CTAs wait so while nothing that they need can
// be on its way, for what comes a link earlier: polls by all threads would fill L2's ports, through
// which others' packets and instructions come.
__device__ __forceinline__ void await_packet(const uint2* at, unsigned epoch) {
  if (threadIdx.x % 32 == 0) {
    while (!arrived(load_packets(at), epoch)) {
      __nanosleep(20);
    }
  }
  __syncwarp();
}

// Which quads of rows a thread receives, and where they go in tiles of x: the same in every pass.
template <int kRows, int kThreads, int kFlying>
class RowReceiver {
 public:
  // Quads [first, first + quads) of rows of `pitch` quads; this is thread `thread` of kThreads.
  // REQUIRES: kRows * quads <= kFlying * kThreads.
  __device__ __forceinline__ RowReceiver(int first, int quads, int pitch, int thread)
      : count_(quads), thread_(thread) {
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      const int row = (thread + i * kThreads) / quads;
      const int quad = thread + i * kThreads - row * quads + first;
      from_[i] = row * pitch + quad;
      to_[i] = static_cast<std::uint32_t>(quad / 16 * (kRows * 128)) + swizzled(row, quad / 2) +
               static_cast<std::uint32_t>(quad % 2 * 8);
    }
  }
  __device__ __forceinline__ void receive_rows(const uint2* from, int rows, unsigned epoch,
                                               unsigned char* x) const {
    const int count = rows * count_;
    uint4 packets[kFlying];
    bool waits;
    do {
      waits = false;
#pragma unroll
      for (int i = 0; i < kFlying; ++i) {
        if (thread_ + i * kThreads < count) {
          packets[i] = load_packets(from + 2 * from_[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kFlying; ++i) {
        waits |= thread_ + i * kThreads < count && !arrived(packets[i], epoch);
      }
    } while (waits);
#pragma unroll
    for (int i = 0; i < kFlying; ++i) {
      if (thread_ + i * kThreads < count) {
        *reinterpret_cast<uint2*>(x + to_[i]) = make_uint2(packets[i].x, packets[i].z);
      }
    }
  }

 private:
  int count_, thread_;
  int from_[kFlying];
  std::uint32_t to_[kFlying];
};
// Whole rows, by all threads; and a slice of K, by the warpgroup that multiplies it.
using WholeRows = RowReceiver<kMostRows, kDraftThreads,
                              kMostRows* static_cast<int>(kDraftMostHidden) / 4 / kDraftThreads>;
using SliceOfRows =
    RowReceiver<kMostRows, 128, kMostRows* static_cast<int>(kDraftSliceK) / 4 / 128>;

__device__ __forceinline__ SliceOfRows own_slice(const DraftMatrix& m) {
  const int slice = min(own_warpgroup(), m.slices - 1);
  const int first = m.first_tile(slice);
  return {first * 16, (m.first_tile(slice + 1) - first) * 16, m.k_tiles * 16,
          static_cast<int>(threadIdx.x) % 128};
}

// Rows of which each warpgroup receives and multiplies its slice of K, one group. Then the sums are
// there behind a barrier.
__device__ __forceinline__ void multiply_received(const DraftProduct& at, const DraftMatrix& m,
                                                  const SliceOfRows& own, const uint2* from,
                                                  int rows, unsigned epoch) {
  if (own_warpgroup() < m.slices) {
    own.receive_rows(from, rows, epoch, at.x);
  }
  multiply_rows<kMostRows>(at, m, 1);
}

// Squares of a row's quads: added as floats within a slice's share of the rows, then as integers;
// to the row's first thread. Whole warps.
__device__ __forceinline__ SquareSum row_squares(float square, const DraftMatrix& m) {
  const int share = kRowQuads >> m.slice_bits;
#pragma unroll 1
  for (int distance = share / 2; distance > 0; distance /= 2) {
    square += __shfl_xor_sync(0xFFFFFFFFU, square, distance);
  }
  SquareSum squares = square_sum(square);
#pragma unroll 1
  for (int distance = kRowQuads / 2; distance >= share; distance /= 2) {
    squares += __shfl_xor_sync(0xFFFFFFFFU, squares, distance);
  }
  return squares;
}

// 1 / RMS of a row from the squares of its blocks; a row's 16 threads, whole warps.
__device__ __forceinline__ float received_scale(const DraftCta& c, const uint2* squares,
                                                const DraftQuad& q, int rows, unsigned epoch) {
  SquareSum own = 0;
  if (q.quad < c.a.hidden / kDraftMatrixRows && q.within(rows)) {
    const uint4 x = receive(squares + 2 * (q.quad * kMostRows + q.node), epoch);
    own = static_cast<SquareSum>(x.z) << 32 | x.x;
  }
#pragma unroll
  for (int distance = kRowQuads / 2; distance > 0; distance /= 2) {
    own += __shfl_xor_sync(0xFFFFFFFFU, own, distance);
  }
  const float mean = static_cast<float>(static_cast<double>(own) * c.a.mean_unit);
  return 1.0F / sqrtf(mean + static_cast<float>(c.a.eps));
}

}  // namespace versieve::kernels
