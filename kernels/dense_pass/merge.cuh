// Merges the splits of a row in ascending order, a warp a row; a lane holds d / 32 elements.
#pragma once

#include <cstdint>

#include "kernels/dense_pass/pass_rows.cuh"

namespace versieve::kernels {

inline constexpr int kMergeWarps = 4;

// All splits, at most 64, of row `row` to out[0, d).
template <int kHeadDim>
__device__ inline void merge_splits(const ChunkPartials& partials, std::int64_t row, Bf16* out) {
  constexpr int kOwn = kHeadDim / 32;
  constexpr unsigned kAll = 0xFFFFFFFFU;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int count = static_cast<int>(partials.chunks);
  const std::int64_t first = row * partials.chunks;
  float max[2];
  float sum[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int c = i * 32 + lane;
    const float2 state =
        c < count ? __ldcg(reinterpret_cast<const float2*>(partials.max_sum + 2 * (first + c)))
                  : float2{no_weight(), 0.0F};
    max[i] = state.x;
    sum[i] = state.y;
  }
  float most = fmaxf(max[0], max[1]);
  for (int apart = 16; apart > 0; apart /= 2) {
    most = fmaxf(most, __shfl_xor_sync(kAll, most, apart));
  }
  const float weight[2] = {exp2f(max[0] - most), exp2f(max[1] - most)};
  float total = fmaf(weight[0], sum[0], weight[1] * sum[1]);
  for (int apart = 16; apart > 0; apart /= 2) {
    total += __shfl_xor_sync(kAll, total, apart);
  }
  float value[kOwn] = {};
#pragma unroll 16
  for (int c = 0; c < count; ++c) {
    const float w = __shfl_sync(kAll, c < 32 ? weight[0] : weight[1], c % 32);
    const float* part = partials.value + (first + c) * kHeadDim + lane * kOwn;
#pragma unroll
    for (int i = 0; i < kOwn; i += 2) {
      const float2 x = __ldcg(reinterpret_cast<const float2*>(part + i));
      value[i] = fmaf(w, x.x, value[i]);
      value[i + 1] = fmaf(w, x.y, value[i + 1]);
    }
  }
  std::uint32_t* pairs = reinterpret_cast<std::uint32_t*>(out) + lane * (kOwn / 2);
#pragma unroll
  for (int i = 0; i < kOwn / 2; ++i) {
    pairs[i] = pack_bf16(value[2 * i] / total, value[2 * i + 1] / total);
  }
}

}  // namespace versieve::kernels
