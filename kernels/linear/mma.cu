// linear in bf16: y[N, M] = x[N, K] w[M, K]^T with mma.m16n8k16, f32 accumulators.
//
// Weights take the 16-row side of the instruction and tree nodes its 8-column side, so that a step
// of few nodes wastes little. Grid: K slice x row tile (N) x weight tile (M). The CTAs of the K
// slices of one output tile form a cluster and add their partial sums through distributed shared
// memory in ascending slice order. Warp w of a CTA owns 16 weight rows and all kTileN nodes; a ring
// of kStages tiles is filled by cp.async.
//
// Bits: an output is sum over slices (ascending) of sum over 16-wide k steps (ascending) of the
// tensor core's product; the slices depend on K and M alone, so N and the tile sizes never show.
// Bound by streaming the weights while N is below some 200 nodes.
#include <cooperative_groups.h>

#include <algorithm>

#include "kernels/common/cuda_check.h"
#include "kernels/common/device_element.cuh"
#include "kernels/linear/mma.h"
#include "model/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kTileK = 64;  // 128 bytes of a row: 8 chunks of 16
constexpr int kChunks = 8;  // of 8 elements
constexpr int kRowBytes = kTileK * 2;
constexpr int kMaxSlices = 8;               // the portable cluster size
constexpr std::int64_t kSliceTarget = 256;  // CTAs wanted: about two for each of 132 SMs
constexpr std::int64_t kSliceRows = 64;     // weight rows a CTA, as the slice rule counts them
constexpr std::int64_t kLeastSliceK = 256;

// How many slices K is cut into: a function of K and M alone.
int slices_of(std::int64_t k, std::int64_t m) {
  const std::int64_t tiles = (m + kSliceRows - 1) / kSliceRows;
  int slices = 1;
  while (slices < kMaxSlices && tiles * slices < kSliceTarget && k / (2 * slices) >= kLeastSliceK) {
    slices *= 2;
  }
  return slices;
}

template <int kTileM, int kTileN, int kStages>
struct MmaPlan {
  static constexpr int kThreads = kTileM * 2;  // a warp for 16 weight rows
  static constexpr int kWeightBytes = kTileM * kRowBytes;
  static constexpr int kStageBytes = kWeightBytes + kTileN * kRowBytes;
  static constexpr int kOutPitch = kTileM + 4;  // f32, the partial sums [kTileN, kTileM]
  static constexpr int kOutBytes = kTileN * kOutPitch * 4;
  static constexpr int kSharedBytes = std::max(kStages * kStageBytes, kOutBytes);
};

// 16 bytes from global to shared memory; `exists` false writes zeros and reads nothing.
__device__ inline void copy_chunk_async(std::uint32_t shared, const void* global, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared), "l"(global),
               "r"(exists ? 16 : 0));
}
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;\n");
}
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

// Chunk c of row r of a tile: chunks are permuted within a row so that eight rows of one chunk
// column fall into different banks.
__device__ inline std::uint32_t chunk_at(std::uint32_t tile, int row, int chunk) {
  return tile + static_cast<std::uint32_t>(row * kRowBytes + ((chunk ^ (row & 7)) * 16));
}

__device__ inline void load_matrices_x4(std::uint32_t address, std::uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline void load_matrices_x2(std::uint32_t address, std::uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address));
}

// d += a b: 16 x 8 sums over 16 products each.
__device__ inline void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// `rows` rows of a [row_end, K] matrix from first_row, k from first_k, into a shared tile.
template <int kRows, int kThreads>
__device__ inline void load_tile(std::uint32_t tile, const Bf16* matrix, int first_row, int row_end,
                                 int first_k, int k_end) {
  constexpr int kCount = kRows * kChunks;
  for (int i = static_cast<int>(threadIdx.x); i < kCount; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const int k = first_k + chunk * 8;
    const bool exists = first_row + row < row_end && k < k_end;
    const Bf16* from =
        exists ? matrix + static_cast<std::int64_t>(first_row + row) * k_end + k : matrix;
    copy_chunk_async(chunk_at(tile, row, chunk), from, exists);
  }
}

// One tile's products for a warp: 16 weight rows against kTileN nodes.
template <int kTileN>
__device__ inline void multiply_tile(std::uint32_t weights, std::uint32_t nodes, int warp, int lane,
                                     float (&acc)[kTileN / 8][4]) {
#pragma unroll
  for (int step = 0; step < kTileK / 16; ++step) {
    std::uint32_t a[4];
    load_matrices_x4(chunk_at(weights, warp * 16 + lane % 16, step * 2 + lane / 16), a);
    std::uint32_t b[4];
    if constexpr (kTileN == 8) {
      load_matrices_x2(chunk_at(nodes, lane % 8, step * 2 + lane / 8 % 2), b);
      multiply(acc[0], a, b[0], b[1]);
    } else {
#pragma unroll
      for (int pair = 0; pair < kTileN / 16; ++pair) {
        const int row = pair * 16 + lane / 16 * 8 + lane % 8;
        load_matrices_x4(chunk_at(nodes, row, step * 2 + lane / 8 % 2), b);
        multiply(acc[pair * 2], a, b[0], b[1]);
        multiply(acc[pair * 2 + 1], a, b[2], b[3]);
      }
    }
  }
}

// This CTA's partial sums of one output tile over K tiles [begin, end).
template <int kTileM, int kTileN, int kStages>
__device__ inline void accumulate(const LinearParams<Bf16>& p, std::uint32_t ring, int first_m,
                                  int first_n, int begin, int end, float (&acc)[kTileN / 8][4]) {
  using Plan = MmaPlan<kTileM, kTileN, kStages>;
  const int k_end = static_cast<int>(p.k);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto fill = [&](int tile) {
    if (tile < end) {
      const std::uint32_t stage =
          ring + static_cast<std::uint32_t>((tile - begin) % kStages * Plan::kStageBytes);
      load_tile<kTileM, Plan::kThreads>(stage, p.w, first_m, static_cast<int>(p.m), tile * kTileK,
                                        k_end);
      load_tile<kTileN, Plan::kThreads>(stage + Plan::kWeightBytes, p.x, first_n,
                                        static_cast<int>(p.n), tile * kTileK, k_end);
    }
    commit_copies();  // an empty group where there is no tile: the count stays right
  };
  for (int tile = begin; tile < begin + kStages - 1; ++tile) {
    fill(tile);
  }
  for (int tile = begin; tile < end; ++tile) {
    wait_copies<kStages - 2>();
    __syncthreads();  // the tile is there for all, and the slot filled next is no longer read
    fill(tile + kStages - 1);
    const std::uint32_t stage =
        ring + static_cast<std::uint32_t>((tile - begin) % kStages * Plan::kStageBytes);
    multiply_tile<kTileN>(stage, stage + Plan::kWeightBytes, warp, lane, acc);
  }
  wait_copies<0>();
  __syncthreads();
}

// The warp's accumulators into the CTA's f32 tile [kTileN, kOutPitch].
template <int kTileN, int kPitch>
__device__ inline void store_partial(const float (&acc)[kTileN / 8][4], float* out) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int m = warp * 16 + lane / 4;
#pragma unroll
  for (int group = 0; group < kTileN / 8; ++group) {
    const int n = group * 8 + lane % 4 * 2;
    out[n * kPitch + m] = acc[group][0];
    out[(n + 1) * kPitch + m] = acc[group][1];
    out[n * kPitch + m + 8] = acc[group][2];
    out[(n + 1) * kPitch + m + 8] = acc[group][3];
  }
}

template <int kTileM, int kTileN, int kStages>
__global__ void __launch_bounds__(kTileM * 2)
    linear_mma_kernel(const __grid_constant__ LinearParams<Bf16> p) {
  namespace cg = cooperative_groups;
  using Plan = MmaPlan<kTileM, kTileN, kStages>;
  extern __shared__ __align__(128) unsigned char shared[];
  const int slices = static_cast<int>(gridDim.x);
  const int slice = static_cast<int>(blockIdx.x);
  const int first_n = static_cast<int>(blockIdx.y) * kTileN;
  const int first_m = static_cast<int>(blockIdx.z) * kTileM;
  const int tiles = (static_cast<int>(p.k) + kTileK - 1) / kTileK;

  float acc[kTileN / 8][4] = {};
  accumulate<kTileM, kTileN, kStages>(
      p, static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)), first_m, first_n,
      tiles * slice / slices, tiles * (slice + 1) / slices, acc);
  float* out = reinterpret_cast<float*>(shared);
  store_partial<kTileN, Plan::kOutPitch>(acc, out);

  // Each CTA of the cluster finishes its share of the tile's outputs.
  cg::cluster_group cluster = cg::this_cluster();
  cluster.sync();
  const int rows = min(kTileN, static_cast<int>(p.n) - first_n);
  for (int i = slice * Plan::kThreads + static_cast<int>(threadIdx.x); i < rows * kTileM;
       i += slices * Plan::kThreads) {
    const int n = i / kTileM;
    const int m = i % kTileM;
    float sum = 0.0F;
    for (int other = 0; other < slices; ++other) {
      sum += cluster.map_shared_rank(out, static_cast<unsigned>(other))[n * Plan::kOutPitch + m];
    }
    if (first_m + m < p.m) {
      const std::int64_t at = (first_n + n) * p.m + first_m + m;
      store_f32(p.y + at, p.residual == nullptr ? sum : load_f32(p.residual + at) + sum);
    }
  }
  cluster.sync();  // nobody's shared memory goes before all have read it
}

template <int kTileM, int kTileN, int kStages>
void launch_tile(const LinearParams<Bf16>& p, cudaStream_t stream) {
  using Plan = MmaPlan<kTileM, kTileN, kStages>;
  const unsigned slices = static_cast<unsigned>(slices_of(p.k, p.m));
  check(cudaFuncSetAttribute(linear_mma_kernel<kTileM, kTileN, kStages>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, Plan::kSharedBytes));
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = slices;
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(slices, static_cast<unsigned>((p.n + kTileN - 1) / kTileN),
                        static_cast<unsigned>((p.m + kTileM - 1) / kTileM));
  config.blockDim = dim3(Plan::kThreads);
  config.dynamicSmemBytes = Plan::kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, linear_mma_kernel<kTileM, kTileN, kStages>, p));
}

}  // namespace

void launch_linear_mma(const LinearParams<Bf16>& p, cudaStream_t stream) {
  VERSIEVE_ASSERT(p.k % 8 == 0 && p.n >= 1, "the tensor-core form takes K in chunks of 8");
  VERSIEVE_ASSERT(p.n < (1 << 22) && p.m <= 65535 * 64, "the grid holds that many tiles");
  // Two 128-row tiles on every SM before the wider tile, which reads fewer nodes twice, pays.
  const bool wide = (p.m + 127) / 128 * slices_of(p.k, p.m) >= 128;
  if (p.n <= 8) {
    launch_tile<64, 8, 6>(p, stream);
  } else if (p.n <= 16) {
    launch_tile<64, 16, 6>(p, stream);
  } else if (p.n <= 32) {
    launch_tile<64, 32, 5>(p, stream);
  } else if (p.n <= 64) {
    wide ? launch_tile<128, 64, 4>(p, stream) : launch_tile<64, 64, 4>(p, stream);
  } else {
    wide ? launch_tile<128, 128, 3>(p, stream) : launch_tile<64, 128, 4>(p, stream);
  }
}

}  // namespace versieve::kernels
