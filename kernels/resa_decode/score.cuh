// Scores of all blocks that are chosen from (Rectified Sparse Attention, equation 3), as order
// keys. A row of block keys (a block's, of one KV head) belongs to kLanes lanes, 16 bytes each.
// Traffic: traffic::resa_score. Bound by memory.
#pragma once

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/resa_decode/step.cuh"

namespace versieve::kernels {

inline constexpr int kScoreThreads = 256;
inline constexpr int kScoreRows = 4;  // rows of a lane group whose loads fly together

// Element g d + e of the unscaled means of the groups' queries.
template <class T>
__device__ inline float mean_query(const ResaDecodeParams<T>& p, std::int64_t i) {
  const int rows = static_cast<int>(p.num_heads / p.num_kv_heads);
  const std::int64_t g = i / p.head_dim;
  const T* q = p.q + g * rows * p.head_dim + i % p.head_dim;
  float sum = 0.0F;
  for (int h = 0; h < rows; ++h) {
    sum += load_f32(q + h * p.head_dim);
  }
  return sum / static_cast<float>(rows);
}

// Grid: (rows of block keys in turns, call). kHeld: the means of all KV heads lie in shared memory;
// else each row works its own out again.
template <class T, int kLanes, bool kHeld>
__global__ void __launch_bounds__(kScoreThreads)
    resa_score_kernel(const __grid_constant__ ResaCalls<T> calls) {
  extern __shared__ __align__(16) float mean[];  // [G, d]
  release_successors();
  wait_for_predecessors();
  const ResaDecodeParams<T>& p = calls.at(blockIdx.y).p;
  const ResaScratch& scratch = calls.at(blockIdx.y).scratch;
  const ResaStep s = resa_step(p);
  if constexpr (kHeld) {
    for (std::int64_t i = threadIdx.x; i < p.num_kv_heads * p.head_dim; i += blockDim.x) {
      mean[i] = mean_query(p, i);
    }
    __syncthreads();
  }
  constexpr int kRows = kScoreThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int element = lane * kWordElements<T>;
  const bool loads = element < p.head_dim;
  const std::int64_t rows = s.free * p.num_kv_heads;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kRows;
  const std::int64_t mine = static_cast<std::int64_t>(blockIdx.x) * kRows + threadIdx.x / kLanes;
  // Whole warps stay in the loop: its shuffles need them.
  for (std::int64_t base = 0; base < rows; base += stride * kScoreRows) {
    uint4 least[kScoreRows];
    uint4 most[kScoreRows];
#pragma unroll
    for (int i = 0; i < kScoreRows; ++i) {
      const std::int64_t row = base + i * stride + mine;
      const bool exists = loads && row < rows;
      const std::int64_t at = row * p.head_dim + element;
      least[i] = exists ? *reinterpret_cast<const uint4*>(p.kmin + at) : uint4{};
      most[i] = exists ? *reinterpret_cast<const uint4*>(p.kmax + at) : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kScoreRows; ++i) {
      const std::int64_t row = base + i * stride + mine;
      const std::int64_t g = row % p.num_kv_heads;
      float low[kWordElements<T>];
      float high[kWordElements<T>];
      unpack<T>(least[i], low);
      unpack<T>(most[i], high);
      float score = 0.0F;
      if (loads) {
#pragma unroll
        for (int e = 0; e < kWordElements<T>; ++e) {
          const std::int64_t at = g * p.head_dim + element + e;
          const float q = kHeld ? mean[at] : mean_query(p, at);
          score += fmaxf(q * high[e], q * low[e]);
        }
      }
#pragma unroll
      for (int apart = kLanes / 2; apart > 0; apart /= 2) {
        score += __shfl_xor_sync(0xFFFFFFFFU, score, apart);
      }
      if (lane == 0 && row < rows) {
        scratch.rank[g * scratch.blocks + row / p.num_kv_heads] =
            order_key<float>(__float_as_uint(score));
      }
    }
  }
}

}  // namespace versieve::kernels
