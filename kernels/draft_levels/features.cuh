// Where a pass begins: captured streams fused into the entries' features, and features, normed,
// times their half of the joint projection. The tokens' half is a slice of K of its own, so its
// sums come from a table that was made once; who attends adds the two.
#pragma once

#include "kernels/common/block_reduce.cuh"
#include "kernels/draft_levels/work.cuh"

namespace versieve::kernels {

inline constexpr int kMostPieces = static_cast<int>(kDraftMostHidden) / 256;  // of a lane

// A row's pieces of 8 elements, piece lane + 32 i of a lane each; the norm's weight.
struct RowPieces {
  uint4 piece[kMostPieces];

  __device__ __forceinline__ void load(const Bf16* row, int hidden) {
#pragma unroll
    for (int i = 0; i < kMostPieces; ++i) {
      const int at = static_cast<int>(threadIdx.x) % 32 + 32 * i;
      piece[i] = at < hidden / 8 ? __ldg(reinterpret_cast<const uint4*>(row) + at) : uint4{};
    }
  }
  // The same from packets; all pieces fly together.
  __device__ __forceinline__ void receive_row(const uint2* from, int hidden, unsigned epoch) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    uint4 half[2 * kMostPieces];
    bool waits;
    do {
      waits = false;
#pragma unroll
      for (int i = 0; i < 2 * kMostPieces; ++i) {
        const int at = lane + 32 * (i / 2);
        if (at < hidden / 8) {
          half[i] = load_packets(from + 4 * at + 2 * (i % 2));
        }
      }
#pragma unroll
      for (int i = 0; i < 2 * kMostPieces; ++i) {
        waits |= lane + 32 * (i / 2) < hidden / 8 && !arrived(half[i], epoch);
      }
    } while (waits);
#pragma unroll
    for (int i = 0; i < kMostPieces; ++i) {
      piece[i] = lane + 32 * i < hidden / 8 ? make_uint4(half[2 * i].x, half[2 * i].z,
                                                         half[2 * i + 1].x, half[2 * i + 1].z)
                                            : uint4{};
    }
  }
};

// The row normed (kernels/rms_norm/row.cuh: a thread's 8 squares ascending, a warp's 256 elements
// pairwise, warps ascending) into row `row` of tiles of x; one warp.
__device__ __forceinline__ void store_normed(const RowPieces& x, const RowPieces& weight,
                                             int hidden, double eps, int row, std::uint32_t x_step,
                                             unsigned char* to) {
  float sum = 0.0F;
#pragma unroll
  for (int i = 0; i < kMostPieces; ++i) {
    float value[8];
    unpack<Bf16>(x.piece[i], value);
    float square = 0.0F;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      square = fmaf(value[j], value[j], square);
    }
    square = warp_sum(square);
    sum = i == 0 ? square : sum + square;
  }
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(hidden) + static_cast<float>(eps));
#pragma unroll
  for (int i = 0; i < kMostPieces; ++i) {
    const int at = static_cast<int>(threadIdx.x) % 32 + 32 * i;
    if (at < hidden / 8) {
      float value[8];
      float factor[8];
      unpack<Bf16>(x.piece[i], value);
      unpack<Bf16>(weight.piece[i], factor);
      uint4 packed;
      Bf16* const out = reinterpret_cast<Bf16*>(&packed);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        store_f32(out + j, value[j] * scale * factor[j]);
      }
      *reinterpret_cast<uint4*>(to + static_cast<std::uint32_t>(at / 8) * x_step +
                                swizzled(row, at)) = packed;
    }
  }
}

// The entries' features: captured rows times 64 rows of `fuse`.
__device__ __forceinline__ void fuse_entries(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  const DraftProduct at = product_memory<kMostEntries>(c, a.fuse_cut.k_tiles, 1);
  const int pieces = 3 * a.hidden / 8;
  const std::uint32_t x = shared_address(at.x);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < a.entries * pieces; i += kDraftThreads) {
    const int row = i / pieces;
    const int piece = i - row * pieces;
    const std::int64_t from = __ldcg(a.entry_row + row);
    fetch_16(x + static_cast<std::uint32_t>(piece / 8 * kMostEntries * 128) + swizzled(row, piece),
             a.captured + (from * pieces + piece) * 8);
  }
  await_fetched();
  multiply_rows<kMostEntries>(at, a.fuse_cut, 1);
  __syncthreads();
  const DraftQuad q;
  if (q.within(a.entries)) {
    const uint2 y = rounded_quad(add_slices<kMostEntries>(at.sums, a.fuse_cut, 0, q));
    send_packets(c.mail(0, a.mail.feature + q.node * (a.hidden / 4) + c.index * kRowQuads + q.quad),
                 y.x, y.y, c.epoch_of(0));
  }
}

// Features times 64 rows of the projection's second half, pass after pass.
__device__ __forceinline__ void project_features(const DraftCta& c) {
  const DraftLevelsArguments& a = c.a;
  const int k_tiles = a.hidden / static_cast<int>(kLinearTileK);
  const DraftProduct at = product_memory<kMostEntries>(c, k_tiles, 1);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const DraftQuad q;
  RowPieces weight;
  weight.load(a.hidden_norm, a.hidden);
#pragma unroll 1
  for (int pass = 0; pass < a.levels; ++pass) {
    const int rows = c.features(pass);
    if (warp < rows) {
      const uint2* const from = pass == 0 ? c.mail(0, a.mail.feature + warp * (a.hidden / 4))
                                          : c.mail(pass - 1, a.mail.down + warp * (a.hidden / 4));
      const unsigned epoch = c.epoch_of(pass == 0 ? 0 : pass - 1);
      await_packet(from, epoch);
      RowPieces x;
      x.receive_row(from, a.hidden, epoch);
      store_normed(x, weight, a.hidden, a.eps, warp, kMostEntries * 128, at.x);
    }
    fence_for_copies();
    __syncthreads();
    if (warp < 4) {
      if (rows <= 8) {
        float sum[1][4] = {};
        multiply_tiles<8>(at.weights, shared_address(at.x), kMostEntries * 128, k_tiles, sum);
        keep_sums<8>(sum, at.sums);
      } else {
        float sum[2][4] = {};
        multiply_tiles<16>(at.weights, shared_address(at.x), kMostEntries * 128, k_tiles, sum);
        keep_sums<16>(sum, at.sums);
      }
    }
    __syncthreads();
    if (q.within(rows)) {
      const float4 sum =
          *reinterpret_cast<const float4*>(at.sums + q.node * kPartialPitch + q.quad * 4);
      uint2* const to = c.mail(pass, a.mail.joint + q.node * (a.joint_rows / 2) +
                                         c.index * (kDraftMatrixRows / 2) + q.quad * 2);
      send_packets(to, sum.x, sum.y, c.epoch_of(pass));
      send_packets(to + 2, sum.z, sum.w, c.epoch_of(pass));
    }
  }
}

// The table of tokens' halves: eight tokens and 64 rows of the projection a block of 128 threads.
__global__ void __launch_bounds__(128)
    draft_token_rows_kernel(const Bf16* embedding, const Bf16* norm, const Bf16* joint, int hidden,
                            int joint_rows, int vocab, double eps, float* rows) {
  extern __shared__ unsigned char unaligned[];
  unsigned char* const shared = unaligned + (1024 - shared_address(unaligned) % 1024) % 1024;
  const int k_tiles = hidden / static_cast<int>(kLinearTileK);
  unsigned char* const x = shared + k_tiles * kWeightTileBytes;
  const int first_row = static_cast<int>(blockIdx.y) * kDraftMatrixRows;
  const int first_token = static_cast<int>(blockIdx.x) * 8;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_weights(joint + static_cast<std::int64_t>(first_row) * 2 * hidden, 2 * hidden, hidden,
               joint_rows - first_row, shared_address(shared));
  RowPieces weight;
  weight.load(norm, hidden);
#pragma unroll 1
  for (int i = warp; i < 8; i += 4) {
    RowPieces row;
    row.load(embedding + static_cast<std::int64_t>(min(first_token + i, vocab - 1)) * hidden,
             hidden);
    store_normed(row, weight, hidden, eps, i, 1024, x);
  }
  await_fetched();
  fence_for_copies();
  __syncthreads();
  float sum[1][4] = {};
  multiply_tiles<8>(shared_address(shared), shared_address(x), 1024, k_tiles, sum);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = first_row + warp * 16 + lane / 4 + i / 2 * 8;
    const int token = first_token + lane % 4 * 2 + i % 2;
    if (row < joint_rows && token < vocab) {
      rows[static_cast<std::int64_t>(token) * joint_rows + row] = sum[0][i];
    }
  }
}

}  // namespace versieve::kernels
