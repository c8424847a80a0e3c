// Merges the chunks of a row in ascending order: by a CTA, whose thread (part, e) adds an eighth of
// the chunks for element e before the parts are added in order, or by a warp, one part after the
// other. Both have the same bits.
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

// The same by one warp, for many rows: each lane adds neighbouring elements, a part's loads at
// once. `weight`: kMaxChunks floats of shared memory, the warp's own.
template <int kHeadDim, class T>
__device__ inline void combine_by_warp(const ChunkPartials& partials, std::int64_t row,
                                       std::int64_t chunks, float* weight, T* out) {
  constexpr int kElements = kHeadDim / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = row * partials.chunks;
  const float2* const value =
      reinterpret_cast<const float2*>(partials.value + first * kHeadDim + lane * kElements);
  float2 x[kPartChunks][kElements / 2];
  const auto load = [&](int part) {
#pragma unroll
    for (int i = 0; i < kPartChunks; ++i) {
      const int c = part * kPartChunks + i;
#pragma unroll
      for (int e = 0; e < kElements / 2; ++e) {
        x[i][e] = c < chunks ? __ldcg(value + c * (kHeadDim / 2) + e) : float2{};
      }
    }
  };
  load(0);
  const float total = row_state(partials, first, chunks, weight).y;
  __syncwarp();
  float2 sum[kElements / 2] = {};
  int part = 0;
#pragma unroll 1
  for (; part * kPartChunks < chunks; ++part) {
    float2 added[kElements / 2] = {};
#pragma unroll
    for (int i = 0; i < kPartChunks; ++i) {
      const float w = weight[part * kPartChunks + i];
#pragma unroll
      for (int e = 0; e < kElements / 2; ++e) {
        added[e].x = fmaf(w, x[i][e].x, added[e].x);
        added[e].y = fmaf(w, x[i][e].y, added[e].y);
      }
    }
#pragma unroll
    for (int e = 0; e < kElements / 2; ++e) {
      sum[e].x = part == 0 ? added[e].x : sum[e].x + added[e].x;
      sum[e].y = part == 0 ? added[e].y : sum[e].y + added[e].y;
    }
    load(part + 1);
  }
  const float rest = 0.0F;  // of the parts without chunks: -0 becomes 0, as by a CTA
#pragma unroll
  for (int e = 0; e < kElements / 2; ++e) {
    if (part < kCombineParts) {
      sum[e].x += rest;
      sum[e].y += rest;
    }
    T* const at = out + lane * kElements + 2 * e;
    store_f32(at, total > 0.0F ? sum[e].x / total : 0.0F);
    store_f32(at + 1, total > 0.0F ? sum[e].y / total : 0.0F);
  }
}

}  // namespace versieve::kernels
