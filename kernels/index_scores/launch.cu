// scores[r, s] = sum over h of weights[r, h] max(0, q[r, h] . keys[s])   (the lightning indexer of
// DeepSeek Sparse Attention)
//
// Tensor cores (bf16): a warp takes 32 positions at once. Their keys go from memory straight to
// its registers, as the rows of A; the query heads are the columns of B, in shared memory in the
// order in which lanes read them: both sides permute the d products alike, so that a lane's 16
// bytes of a key are 8 neighbouring elements. Positions are read once for up to 8 queries.
// Grid: (up to two blocks of 8 warps an SM, eights of queries, call); warps go through the
// positions in turns. Traffic: traffic::index_scores, the keys once. Bound by bandwidth for one or
// two queries, by the tensor cores from four on. Other shapes and f32: a warp a position, lanes
// over d.
#include "kernels/index_scores/launch.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/common/block_reduce.cuh"
#include "kernels/common/call_list.cuh"
#include "kernels/common/cuda_check.h"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/ptx/mma.cuh"
#include "model/launches/index_scores.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kWarpKeys = 32;  // positions of a warp at once
constexpr int kBlockRows = 8;  // queries of a block
constexpr int kMostHeads = 64;
constexpr std::int64_t kSmBlocks = 2;  // on each SM
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

// 16 bytes of a key are two k-steps of 16 products for four lanes.
template <int kDim>
inline constexpr int kChunks = kDim / 32;

// Positions that have a score.
template <class T>
__device__ inline std::int64_t scored_positions(const IndexScoresParams<T>& p) {
  return p.counts == nullptr ? p.length
                             : min(p.length, std::int64_t{p.counts->context_len} - p.newest);
}

// The keys of 16 positions, as the rows of A.
template <int kDim>
struct KeyTile {
  uint4 low[kChunks<kDim>];   // position lane / 4
  uint4 high[kChunks<kDim>];  // 8 further on

  // Positions past the end repeat the last.
  __device__ void load(const Bf16* keys, std::int64_t first, std::int64_t length) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const std::int64_t position = first + lane / 4;
    const Bf16* at = keys + min(position, length - 1) * kDim + lane % 4 * 8;
    const Bf16* next = keys + min(position + 8, length - 1) * kDim + lane % 4 * 8;
#pragma unroll
    for (int c = 0; c < kChunks<kDim>; ++c) {
      low[c] = __ldg(reinterpret_cast<const uint4*>(at + c * 32));
      high[c] = __ldg(reinterpret_cast<const uint4*>(next + c * 32));
    }
  }
  __device__ void multiply(int chunk, const uint4& q, float (&sum)[4]) const {
    const std::uint32_t even[4] = {low[chunk].x, high[chunk].x, low[chunk].y, high[chunk].y};
    multiply_m16n8k16(sum, even, q.x, q.y);
    const std::uint32_t odd[4] = {low[chunk].z, high[chunk].z, low[chunk].w, high[chunk].w};
    multiply_m16n8k16(sum, odd, q.z, q.w);
  }
};

// The block's queries: [rows, H / 8, chunks, 32 lanes] words of 16 bytes, then weights [rows, H].
template <int kDim>
__device__ inline void stage_queries(const IndexScoresParams<Bf16>& p, std::int64_t first_row,
                                     int rows, uint4* q, float* weights) {
  const int heads = static_cast<int>(p.num_heads);
  constexpr int kHeadWords = kDim / 8;
  const uint4* from = reinterpret_cast<const uint4*>(p.q + first_row * heads * kDim);
  for (int i = static_cast<int>(threadIdx.x); i < rows * heads * kHeadWords; i += kThreads) {
    const int head = i / kHeadWords;  // over the rows
    const int word = i % kHeadWords;
    q[(head / 8 * kChunks<kDim> + word / 4) * 32 + head % 8 * 4 + word % 4] = __ldg(from + i);
  }
  for (int i = static_cast<int>(threadIdx.x); i < rows * heads; i += kThreads) {
    weights[i] = __ldg(p.weights + first_row * heads + i);
  }
  __syncthreads();
}

// One query's scores of 32 positions, a lane the one at lane / 4 + lane % 4 * 8.
template <int kDim>
__device__ inline float tile_score(const KeyTile<kDim> (&keys)[2], int heads, const uint4* q,
                                   const float* weights) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  float score[4] = {};
#pragma unroll 2
  for (int eight = 0; eight < heads / 8; ++eight) {
    float sum[2][4] = {};
#pragma unroll
    for (int c = 0; c < kChunks<kDim>; ++c) {
      const uint4 word = q[(eight * kChunks<kDim> + c) * 32 + lane];
      keys[0].multiply(c, word, sum[0]);
      keys[1].multiply(c, word, sum[1]);
    }
    const float2 w = *reinterpret_cast<const float2*>(weights + eight * 8 + lane % 4 * 2);
#pragma unroll
    for (int half = 0; half < 4; ++half) {
      const float* of = sum[half / 2] + half % 2 * 2;
      score[half] += w.x * fmaxf(of[0], 0.0F) + w.y * fmaxf(of[1], 0.0F);
    }
  }
#pragma unroll
  for (int half = 0; half < 4; ++half) {
    score[half] += __shfl_xor_sync(kAllLanes, score[half], 1);
    score[half] += __shfl_xor_sync(kAllLanes, score[half], 2);
  }
  const float lower = lane % 2 == 0 ? score[0] : score[1];
  const float upper = lane % 2 == 0 ? score[2] : score[3];
  return lane % 4 < 2 ? lower : upper;
}

template <int kDim, int kCalls>
__global__ void __launch_bounds__(kThreads, 2)
    index_scores_kernel(const __grid_constant__ CallList<IndexScoresParams<Bf16>, kCalls> calls) {
  const IndexScoresParams<Bf16>& p = calls.at(blockIdx.z);
  extern __shared__ __align__(16) unsigned char bytes[];
  const int heads = static_cast<int>(p.num_heads);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kBlockRows;
  const int rows = static_cast<int>(min(p.rows - first_row, std::int64_t{kBlockRows}));
  if (kCalls > 1 && rows <= 0) {
    return;
  }
  uint4* q = reinterpret_cast<uint4*>(bytes);
  const int row_words = heads * kDim / 8;
  float* weights = reinterpret_cast<float*>(q + rows * row_words);
  release_successors();
  wait_for_predecessors();
  const std::int64_t scored = scored_positions(p);
  stage_queries<kDim>(p, first_row, rows, q, weights);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kWarps * kWarpKeys;
  std::int64_t first =
      (static_cast<std::int64_t>(threadIdx.x / 32) * gridDim.x + blockIdx.x) * kWarpKeys;
  for (; first < p.length; first += stride) {
    KeyTile<kDim> keys[2];
    keys[0].load(p.keys, first, p.length);
    keys[1].load(p.keys, first + 16, p.length);
    const std::int64_t position = first + lane / 4 + lane % 4 * 8;
    for (int row = 0; row < rows; ++row) {
      const float score = tile_score<kDim>(keys, heads, q + row * row_words, weights + row * heads);
      if (position < p.length) {
        store_f32(p.scores + (first_row + row) * p.length + position,
                  position < scored ? score : -INFINITY);
      }
    }
  }
}

template <class T, int kCalls>
__global__ void __launch_bounds__(kThreads)
    index_scores_warp_kernel(const __grid_constant__ CallList<IndexScoresParams<T>, kCalls> calls) {
  const IndexScoresParams<T>& p = calls.at(blockIdx.z);
  release_successors();
  wait_for_predecessors();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t position =
      static_cast<std::int64_t>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x / 32);
  const std::int64_t row = blockIdx.y;
  if (position >= p.length || row >= p.rows) {
    return;
  }
  const T* key = p.keys + position * p.head_dim;
  float score = 0.0F;
  for (std::int64_t h = 0; h < p.num_heads; ++h) {
    const T* q = p.q + (row * p.num_heads + h) * p.head_dim;
    float product = 0.0F;
    for (std::int64_t e = lane; e < p.head_dim; e += 32) {
      product += load_f32(q + e) * load_f32(key + e);
    }
    score += p.weights[row * p.num_heads + h] * fmaxf(warp_sum(product), 0.0F);
  }
  if (lane == 0) {
    store_f32(p.scores + row * p.length + position,
              position < scored_positions(p) ? score : -INFINITY);
  }
}

// Of calls side by side: the grid's second and third dimension.
template <class T>
dim3 grid_of(std::span<const IndexScoresParams<T>> calls, std::int64_t blocks,
             std::int64_t block_rows) {
  const std::int64_t rows = most_of(calls, [](const auto& p) { return p.rows; });
  return {static_cast<unsigned>(blocks),
          static_cast<unsigned>((rows + block_rows - 1) / block_rows),
          static_cast<unsigned>(calls.size())};
}

template <int kDim, int kCalls>
void enqueue(const CallList<IndexScoresParams<Bf16>, kCalls>& list,
             std::span<const IndexScoresParams<Bf16>> calls, cudaStream_t stream) {
  const std::int64_t bytes = most_of(calls, [](const auto& p) {
    return std::min<std::int64_t>(p.rows, kBlockRows) * p.num_heads *
           (kDim * 2 + static_cast<int>(sizeof(float)));
  });
  const std::int64_t tiles =
      most_of(calls, [](const auto& p) { return (p.length + kWarpKeys - 1) / kWarpKeys; });
  // Few positions: a warp a block, so that they spread over the chip.
  const std::int64_t share =
      (kSmBlocks * multiprocessors() + std::ssize(calls) - 1) / std::ssize(calls);
  launch_dependent({.grid = grid_of(calls, std::min(tiles, share), kBlockRows),
                    .threads = kThreads,
                    .shared_bytes = static_cast<std::size_t>(bytes),
                    .stream = stream},
                   index_scores_kernel<kDim, kCalls>, list);
}

template <class T, int kCalls>
void enqueue_warps(const CallList<IndexScoresParams<T>, kCalls>& list,
                   std::span<const IndexScoresParams<T>> calls, cudaStream_t stream) {
  const std::int64_t blocks =
      (most_of(calls, [](const auto& p) { return p.length; }) + kWarps - 1) / kWarps;
  launch_dependent({.grid = grid_of(calls, blocks, 1), .threads = kThreads, .stream = stream},
                   index_scores_warp_kernel<T, kCalls>, list);
}

template <class T>
bool streams(const IndexScoresParams<T>& p) {
  if constexpr (sizeof(T) == 2) {
    return index_scores_streams(p);
  }
  return false;
}

// Calls of one form.
template <class T>
void launch_alike(std::span<const IndexScoresParams<T>> calls, const LaunchContext& context) {
  launch_lists(calls, [&](const auto& list, std::span<const IndexScoresParams<T>> some) {
    Traffic traffic;
    for (const IndexScoresParams<T>& p : some) {
      VERSIEVE_ASSERT(p.rows >= 1 && p.length >= 1, "index_scores needs queries and positions");
      VERSIEVE_ASSERT(p.num_heads >= 1 && p.head_dim >= 1, "index_scores needs heads");
      VERSIEVE_ASSERT(p.head_dim == some[0].head_dim, "calls are of one model");
      VERSIEVE_ASSERT(p.rows < 65536 && p.length < (std::int64_t{1} << 33), "a grid holds them");
      traffic +=
          traffic::index_scores(p.rows, p.length, IndexHeads{p.num_heads, p.head_dim}, sizeof(T));
    }
    const LaunchRange range("index_scores", traffic, context.observer);
    if constexpr (sizeof(T) == 2) {
      if (streams(some[0])) {
        some[0].head_dim == 64 ? enqueue<64>(list, some, context.stream)
                               : enqueue<128>(list, some, context.stream);
        check(cudaGetLastError());
        return;
      }
    }
    enqueue_warps(list, some, context.stream);
    check(cudaGetLastError());
  });
}

}  // namespace

bool index_scores_streams(const IndexScoresParams<Bf16>& p) {
  const auto aligned = [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  return (p.head_dim == 64 || p.head_dim == 128) && p.num_heads % 8 == 0 && p.num_heads >= 8 &&
         p.num_heads <= kMostHeads && aligned(p.q) && aligned(p.keys);
}

template <class T>
void launch_index_scores(const IndexScoresParams<T>& p, const LaunchContext& context) {
  launch_alike(std::span(&p, 1), context);
}

template <class T>
void launch_index_scores_together(std::span<const IndexScoresParams<T>> calls,
                                  const LaunchContext& context) {
  std::vector<IndexScoresParams<T>> streamed, others;
  for (const IndexScoresParams<T>& p : calls) {
    (streams(p) ? streamed : others).push_back(p);
  }
  launch_alike<T>(streamed, context);
  launch_alike<T>(others, context);
}

template void launch_index_scores<float>(const IndexScoresParams<float>&, const LaunchContext&);
template void launch_index_scores<Bf16>(const IndexScoresParams<Bf16>&, const LaunchContext&);
template void launch_index_scores_together<float>(std::span<const IndexScoresParams<float>>,
                                                  const LaunchContext&);
template void launch_index_scores_together<Bf16>(std::span<const IndexScoresParams<Bf16>>,
                                                 const LaunchContext&);

}  // namespace versieve::kernels
