// linear in bf16: y[N, M] = x[N, K] w[M, K]^T, or silu(x wg^T) (x wu^T) with w = [wg; wu].
//
// Weights are the 64-row side of wgmma and tree nodes its column side, so a step of few nodes
// wastes little. A block owns 128 weight rows (two groups of 64: gate and up rows under swiglu) and
// a slice of K. One thread fills a ring of 64-wide K tiles with bulk copies. Before it waits for
// the launches before this one it asks for the weights of the whole ring; x follows the wait. Two
// warpgroups multiply. The blocks of one row tile's K slices form a cluster; each is sent its share
// of the rows' partial sums of all slices and adds them in ascending slice order.
//
// Bits: an output is sum over slices (ascending) of sum over 16-wide k steps (ascending) of the
// tensor core's product; the slices depend on K and M alone, so N and the tile sizes never show.
// Bound by streaming the weights while N is below some 200 nodes.
#include <algorithm>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/linear/async_copy.cuh"
#include "kernels/linear/stream.h"
#include "kernels/linear/tensor_map.h"
#include "kernels/linear/wgmma.cuh"
#include "kernels/swiglu/activation.cuh"
#include "model/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kGroupRows = 64;  // weight rows of a warpgroup
constexpr int kTileRows = 2 * kGroupRows;
constexpr int kTileK = 64;  // 128 bytes of a row
constexpr int kRowBytes = kTileK * 2;
constexpr int kGroupBytes = kGroupRows * kRowBytes;
constexpr int kWeightBytes = 2 * kGroupBytes;  // of a K tile
constexpr int kMultiplyWarps = 8;
constexpr int kThreads = (kMultiplyWarps + 1) * 32;  // and a warp for the copies
constexpr int kMaxSlices = 8;                        // the portable cluster size
constexpr std::int64_t kBlocksWanted = 132;          // one for each SM of an H200
constexpr std::int64_t kLeastSliceK = 256;
constexpr int kAlignment = 1024;  // of a swizzled tile

// How many slices K is cut into: a function of K and M alone.
int slices_of(std::int64_t k, std::int64_t m) {
  const std::int64_t tiles = (m + kTileRows - 1) / kTileRows;
  int slices = 1;
  while (slices < kMaxSlices && tiles * slices * 2 <= kBlocksWanted &&
         k / (2 * slices) >= kLeastSliceK) {
    slices *= 2;
  }
  return slices;
}

// Two blocks share an SM's 227 KiB, of one launch or of two that follow each other.
template <int kNodes, int kRingStages>
struct StreamPlan {
  static constexpr int kStages = kRingStages;
  static constexpr int kStageBytes = kWeightBytes + kNodes * kRowBytes;
  static constexpr int kRingBytes = kStages * kStageBytes;
  // Partial sums of some nodes, [slices, nodes, 2, share + kPad] f32 with share = 64 / slices rows
  // of each group: one such array is made here for all blocks, one received from all blocks.
  static constexpr int kRoundNodes = std::min(kNodes, 64);
  static constexpr int kPad = 4;  // keeps a warp's stores in different banks
  static constexpr int kPartialBytes = kRoundNodes * (kTileRows + 2 * kPad * kMaxSlices) * 4;
  // With few nodes what is received has room of its own: a block may send before others are done.
  static constexpr bool kOwnRoom = kNodes <= 16;
  static constexpr int kReceivedAt = kOwnRoom ? kRingBytes : kPartialBytes;
  static constexpr int kSharedBytes =
      kAlignment + std::max(kRingBytes, kReceivedAt + kPartialBytes);
  static_assert(kPartialBytes <= kRingBytes && kSharedBytes <= 113 * 1024, "two blocks on an SM");
};

struct StreamParams {
  CUtensorMap weights;  // boxes of 64 rows
  CUtensorMap nodes;    // boxes of kNodes rows
  LinearParams<Bf16> p;
};

// What a block works on.
struct Tile {
  int slice, slices;
  int first_node, node_count;
  int first_row[2];  // weight row of each group
  int first_k, k_tiles;
};

template <int kNodes>
__device__ inline Tile own_tile(const LinearParams<Bf16>& p) {
  const int k_tiles = (static_cast<int>(p.k) + kTileK - 1) / kTileK;
  const int row_step = p.swiglu ? kGroupRows : kTileRows;
  Tile t;
  t.slice = static_cast<int>(blockIdx.x);
  t.slices = static_cast<int>(gridDim.x);
  t.first_node = static_cast<int>(blockIdx.y) * kNodes;
  t.node_count = min(kNodes, static_cast<int>(p.n) - t.first_node);
  t.first_row[0] = static_cast<int>(blockIdx.z) * row_step;
  t.first_row[1] = t.first_row[0] + (p.swiglu ? static_cast<int>(p.m) : kGroupRows);
  t.first_k = k_tiles * t.slice / t.slices;
  t.k_tiles = k_tiles * (t.slice + 1) / t.slices - t.first_k;
  return t;
}

// The copying thread: weights of the first ring-full at once, x when its writer has ended.
template <class Plan>
__device__ inline void copy_tiles(const StreamParams& s, const Tile& t, std::uint32_t ring,
                                  std::uint32_t full, std::uint32_t empty) {
  const auto copy_weights = [&](int i) {
    const int stage = i % Plan::kStages;
    const std::uint32_t to = ring + static_cast<std::uint32_t>(stage * Plan::kStageBytes);
    const std::uint32_t barrier = full + static_cast<std::uint32_t>(stage * 8);
    const int column = (t.first_k + i) * kTileK;
    barrier_expect(barrier, Plan::kStageBytes);
    copy_box(to, &s.weights, column, t.first_row[0], barrier, kEvictFirst);
    copy_box(to + kGroupBytes, &s.weights, column, t.first_row[1], barrier, kEvictFirst);
  };
  const auto copy_nodes = [&](int i) {
    const int stage = i % Plan::kStages;
    copy_box(ring + static_cast<std::uint32_t>(stage * Plan::kStageBytes + kWeightBytes), &s.nodes,
             (t.first_k + i) * kTileK, t.first_node, full + static_cast<std::uint32_t>(stage * 8),
             kEvictLast);
  };
  const int ahead = min(Plan::kStages, t.k_tiles);
  for (int i = 0; i < ahead; ++i) {
    copy_weights(i);
  }
  wait_for_predecessors();
  for (int i = 0; i < ahead; ++i) {
    copy_nodes(i);
  }
  for (int i = ahead; i < t.k_tiles; ++i) {
    const int turn = i / Plan::kStages;
    barrier_wait(empty + static_cast<std::uint32_t>(i % Plan::kStages * 8), (turn - 1) & 1);
    copy_weights(i);
    copy_nodes(i);
  }
}

// A warpgroup's products of its 64 rows with all nodes of the tile.
template <class Plan, int kNodes>
__device__ inline void multiply_tiles(int k_tiles, int group, std::uint32_t ring,
                                      std::uint32_t full, std::uint32_t empty,
                                      float (&sum)[kNodes / 8][4]) {
  const bool signals = threadIdx.x % 32 == 0;
  for (int i = 0; i < k_tiles; ++i) {
    const int stage = i % Plan::kStages;
    const std::uint32_t at = ring + static_cast<std::uint32_t>(stage * Plan::kStageBytes);
    const std::uint64_t a = wgmma_operand(at + static_cast<std::uint32_t>(group * kGroupBytes));
    const std::uint64_t b = wgmma_operand(at + kWeightBytes);
    barrier_wait(full + static_cast<std::uint32_t>(stage * 8), (i / Plan::kStages) & 1);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kTileK / 16; ++step) {  // 16 elements of K: 2 units of 16 bytes
      wgmma<kNodes>(sum, a + static_cast<std::uint64_t>(2 * step),
                    b + static_cast<std::uint64_t>(2 * step));
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (i > 0 && signals) {
      barrier_arrive(empty + static_cast<std::uint32_t>((i - 1) % Plan::kStages * 8));
    }
  }
  wgmma_wait<0>();
}

// This thread's partial sums of the nodes [first_node, + kRoundNodes) of the tile into the block's
// array, sorted by the block that finishes their rows.
template <class Plan, int kNodes>
__device__ inline void write_partials(int slices, int group, int first_node, float* made,
                                      const float (&sum)[kNodes / 8][4]) {
  const int share = kGroupRows / slices;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = static_cast<int>(threadIdx.x / 32 % 4) * 16 + lane / 4;
#pragma unroll
  for (int columns = 0; columns < Plan::kRoundNodes / 8; ++columns) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + i / 2 * 8;
      const int node = columns * 8 + lane % 4 * 2 + i % 2;
      made[((row / share * Plan::kRoundNodes + node) * 2 + group) * (share + Plan::kPad) +
           row % share] = sum[first_node / 8 + columns][i];
    }
  }
}

// Sends each block of the cluster the partial sums of its rows. The barrier is armed first: what
// others send may arrive at once.
template <class Plan>
__device__ inline void exchange_partials(const Tile& t, int node_count, std::uint32_t ring,
                                         std::uint32_t received) {
  const int pitch = (kGroupRows / t.slices + Plan::kPad) * 4;
  const int bytes = node_count * 2 * pitch;
  const int block_bytes = Plan::kRoundNodes * 2 * pitch;
  if (threadIdx.x == 0) {
    barrier_expect(received, t.slices * bytes);
  }
  if (static_cast<int>(threadIdx.x) < t.slices) {
    const unsigned to = threadIdx.x;
    copy_to_block(to, ring + static_cast<std::uint32_t>(Plan::kReceivedAt + t.slice * block_bytes),
                  ring + to * static_cast<std::uint32_t>(block_bytes), bytes, received);
  }
}

// Four neighbouring outputs of a node; those past the last row are dropped.
__device__ inline void write_quad(const LinearParams<Bf16>& p, int node, int m, float4 sum) {
  const std::int64_t at = static_cast<std::int64_t>(node) * p.m + m;
  float value[4] = {sum.x, sum.y, sum.z, sum.w};
  const std::uintptr_t addresses =
      reinterpret_cast<std::uintptr_t>(p.y) | reinterpret_cast<std::uintptr_t>(p.residual);
  if (p.m % 4 == 0 && addresses % sizeof(uint2) == 0 && m < p.m) {
    if (p.residual != nullptr) {
      const uint2 residual = *reinterpret_cast<const uint2*>(p.residual + at);
      value[0] += __uint_as_float(residual.x << 16);
      value[1] += __uint_as_float(residual.x & 0xFFFF0000U);
      value[2] += __uint_as_float(residual.y << 16);
      value[3] += __uint_as_float(residual.y & 0xFFFF0000U);
    }
    uint2 packed;
    Bf16* const out = reinterpret_cast<Bf16*>(&packed);
    for (int i = 0; i < 4; ++i) {
      store_f32(out + i, value[i]);
    }
    *reinterpret_cast<uint2*>(p.y + at) = packed;
    return;
  }
  for (int i = 0; i < 4 && m + i < p.m; ++i) {
    store_f32(p.y + at + i,
              p.residual == nullptr ? value[i] : load_f32(p.residual + at + i) + value[i]);
  }
}

// Adds the slices' partial sums of this block's share of the rows and writes y, 4 rows a thread.
template <class Plan>
__device__ inline void finish_rows(const LinearParams<Bf16>& p, const Tile& t, int first_node,
                                   int node_count, const float* partials) {
  const int share = kGroupRows / t.slices;
  const auto total = [&](int group, int node, int r) {
    float4 sum = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    for (int slice = 0; slice < t.slices; ++slice) {
      const float4 part = *reinterpret_cast<const float4*>(
          partials + ((slice * Plan::kRoundNodes + node) * 2 + group) * (share + Plan::kPad) + r);
      sum.x += part.x;
      sum.y += part.y;
      sum.z += part.z;
      sum.w += part.w;
    }
    return sum;
  };
  const int groups = p.swiglu ? 1 : 2;
  const int quads = share / 4;
  for (int i = static_cast<int>(threadIdx.x); i < node_count * groups * quads; i += kThreads) {
    const int r = i % quads * 4;
    const int group = i / quads % groups;
    const int node = i / (quads * groups);
    float4 sum = total(group, node, r);
    if (p.swiglu) {
      const float4 up = total(1, node, r);
      sum = make_float4(silu_product(sum.x, up.x), silu_product(sum.y, up.y),
                        silu_product(sum.z, up.z), silu_product(sum.w, up.w));
    }
    write_quad(p, first_node + node, t.first_row[group] + t.slice * share + r, sum);
  }
}

template <int kNodes, int kStages>
__global__ void __launch_bounds__(kThreads)
    linear_stream_kernel(const __grid_constant__ StreamParams s) {
  using Plan = StreamPlan<kNodes, kStages>;
  extern __shared__ unsigned char shared[];
  __shared__ std::uint64_t barriers[2 * kStages + 1];
  unsigned char* const aligned =
      shared + (kAlignment - shared_address(shared) % kAlignment) % kAlignment;
  const std::uint32_t ring = shared_address(aligned);
  const std::uint32_t full = shared_address(barriers);
  const std::uint32_t empty = shared_address(barriers + kStages);
  const std::uint32_t received = shared_address(barriers + 2 * kStages);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const Tile t = own_tile<kNodes>(s.p);

  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + static_cast<std::uint32_t>(i * 8), 1);
      barrier_init(empty + static_cast<std::uint32_t>(i * 8), kMultiplyWarps);
    }
    barrier_init(received, 1);
    fence_barrier_init();
  }
  __syncthreads();
  release_successors();
  if (Plan::kOwnRoom && t.slices > 1) {
    cluster_arrive();  // this block runs and its barriers are ready: it may be sent to
  }

  float sum[kNodes / 8][4] = {};
  if (warp == kMultiplyWarps) {
    if (threadIdx.x % 32 == 0) {
      copy_tiles<Plan>(s, t, ring, full, empty);
    }
    __syncwarp();
  } else {
    multiply_tiles<Plan, kNodes>(t.k_tiles, warp / 4, ring, full, empty, sum);
  }
  wait_for_predecessors();  // before y is written and the residual read
  __syncthreads();          // the ring is free
  if (!Plan::kOwnRoom && t.slices > 1) {
    cluster_arrive();
  }
  float* const made = reinterpret_cast<float*>(aligned);
  const float* const sums =
      t.slices == 1 ? made : reinterpret_cast<const float*>(aligned + Plan::kReceivedAt);
#pragma unroll
  for (int round = 0; round < kNodes / Plan::kRoundNodes; ++round) {
    const int first_node = round * Plan::kRoundNodes;
    const int node_count = min(Plan::kRoundNodes, t.node_count - first_node);
    if (node_count <= 0) {
      break;
    }
    if (warp < kMultiplyWarps) {
      write_partials<Plan, kNodes>(t.slices, warp / 4, first_node, made, sum);
    }
    if (t.slices > 1) {
      fence_for_copies();
    }
    __syncthreads();
    if (t.slices > 1) {
      if (round == 0) {
        cluster_wait();
      }
      exchange_partials<Plan>(t, node_count, ring, received);
      barrier_wait(received, round & 1);
    }
    finish_rows<Plan>(s.p, t, t.first_node + first_node, node_count, sums);
    if (t.slices > 1) {
      cluster_arrive();  // what this block sent has been received
      cluster_wait();
    } else {
      __syncthreads();
    }
  }
}

template <int kNodes, int kStages>
void launch_tile(const LinearParams<Bf16>& p, cudaStream_t stream) {
  const unsigned slices = static_cast<unsigned>(slices_of(p.k, p.swiglu ? 2 * p.m : p.m));
  const std::int64_t step = p.swiglu ? kGroupRows : kTileRows;
  const StreamParams s{.weights = matrix_map(p.w, p.swiglu ? 2 * p.m : p.m, p.k, kGroupRows),
                       .nodes = matrix_map(p.x, p.n, p.k, kNodes),
                       .p = p};
  launch_dependent({.grid = dim3(slices, static_cast<unsigned>((p.n + kNodes - 1) / kNodes),
                                 static_cast<unsigned>((p.m + step - 1) / step)),
                    .threads = kThreads,
                    .cluster = slices,
                    .shared_bytes = StreamPlan<kNodes, kStages>::kSharedBytes,
                    .stream = stream},
                   linear_stream_kernel<kNodes, kStages>, s);
}

}  // namespace

void launch_linear_stream(const LinearParams<Bf16>& p, cudaStream_t stream) {
  VERSIEVE_ASSERT(p.k % 8 == 0 && p.n >= 1, "the tensor-core form takes K in chunks of 8");
  VERSIEVE_ASSERT(p.n < (1 << 22) && p.m <= 65535 * kGroupRows, "the grid holds that many tiles");
  if (p.n <= 8) {
    launch_tile<8, 6>(p, stream);
  } else if (p.n <= 16) {
    launch_tile<16, 5>(p, stream);
  } else if (p.n <= 32) {
    launch_tile<32, 5>(p, stream);
  } else if (p.n <= 64) {
    launch_tile<64, 4>(p, stream);
  } else {
    launch_tile<128, 3>(p, stream);
  }
}

}  // namespace versieve::kernels
