// Merges the chunks of a row in ascending order. Grid: one CTA a row; thread (part, e) adds an
// eighth of the chunks for element e, then the parts are added in order.
#pragma once

#include <cstdint>

#include "kernels/common/device_element.cuh"
#include "kernels/flash_decode/partition.h"

namespace versieve::kernels {

inline constexpr int kCombineParts = 8;
inline constexpr int kPartChunks = kMaxChunks / kCombineParts;

// By a warp: (m, sum of exponentials) of the row whose chunks start at `first`, to every lane, and
// weight[c] = 2^(m_c - m) unless it is null.
__device__ inline float2 row_state(const ChunkPartials& partials, std::int64_t first,
                                   std::int64_t chunks, float* weight) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float max[kMaxChunks / 32];
  float sum[kMaxChunks / 32];
  float most = __int_as_float(0xFF800000);
#pragma unroll
  for (int i = 0; i < kMaxChunks / 32; ++i) {
    const int c = i * 32 + lane;
    const bool exists = c < chunks;
    const float2 state =
        exists ? __ldcg(reinterpret_cast<const float2*>(partials.max_sum + 2 * (first + c)))
               : float2{__int_as_float(0xFF800000), 0.0F};
    max[i] = state.x;
    sum[i] = state.y;
    most = fmaxf(most, max[i]);
  }
  for (int apart = 16; apart > 0; apart /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, apart));
  }
  float all = 0.0F;
#pragma unroll
  for (int i = 0; i < kMaxChunks / 32; ++i) {
    const float w = max[i] == __int_as_float(0xFF800000) ? 0.0F : exp2f(max[i] - most);
    if (weight != nullptr) {
      weight[i * 32 + lane] = w;
    }
    all = fmaf(w, sum[i], all);
  }
  for (int apart = 16; apart > 0; apart /= 2) {
    all += __shfl_xor_sync(0xFFFFFFFFU, all, apart);
  }
  return {most, all};
}

// By the first warp: the chunks' weights, and their sum of exponentials to `total`.
__device__ inline void weigh_chunks(const ChunkPartials& partials, std::int64_t first,
                                    std::int64_t chunks, float* weight, float& total) {
  const float2 state = row_state(partials, first, chunks, weight);
  if (threadIdx.x % 32 == 0) {
    total = state.y;
  }
}

// `chunks` of row `row` to out[0, d). REQUIRES: kCombineParts * d threads, at least 128.
template <class T>
__device__ inline void combine_chunks(const ChunkPartials& partials, std::int64_t row,
                                      std::int64_t chunks, int head_dim, T* out) {
  __shared__ float weight[kMaxChunks];
  __shared__ float total;
  __shared__ float part_value[kCombineParts * 128];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first = row * partials.chunks;
  const int part = thread / head_dim;
  const int element = thread % head_dim;
  float x[kPartChunks];
#pragma unroll
  for (int i = 0; i < kPartChunks; ++i) {
    const int c = part * kPartChunks + i;
    x[i] = c < chunks ? __ldcg(partials.value + (first + c) * head_dim + element) : 0.0F;
  }
  if (thread < 32) {
    weigh_chunks(partials, first, chunks, weight, total);
  }
  __syncthreads();
  float value = 0.0F;
  if (part < kCombineParts) {
#pragma unroll
    for (int i = 0; i < kPartChunks; ++i) {
      value = fmaf(weight[part * kPartChunks + i], x[i], value);
    }
    part_value[part * head_dim + element] = value;
  }
  __syncthreads();
  if (part == 0) {
    float sum = part_value[element];
    for (int other = 1; other < kCombineParts; ++other) {
      sum += part_value[other * head_dim + element];
    }
    store_f32(out + element, total > 0.0F ? sum / total : 0.0F);
  }
}

}  // namespace versieve::kernels
