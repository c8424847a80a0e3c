// Parts of a row (spans of compressed tokens, segments) merged in ascending order by one warp.
#pragma once

#include "kernels/nsa_verify/fused.cuh"

namespace versieve::kernels {

// Softmax states of up to `used` parts of one row merged in ascending order: maximum, and 1 / sum
// or 0 where no key was seen. A part a lane (and 32 parts later).
struct MergedState {
  float most;
  float inverse;
};
__device__ inline MergedState merge_states(const float2* states, int used) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float most = kNoReference;
#pragma unroll 1
  for (int base = 0; base < used; base += 32) {
    const float2 state =
        base + lane < used ? __ldcg(states + base + lane) : make_float2(kNoReference, 0.0F);
    most = state.y > 0.0F ? fmaxf(most, state.x) : most;
  }
#pragma unroll 1
  for (int apart = 16; apart > 0; apart /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, apart));
  }
  float sum = 0.0F;
#pragma unroll 1
  for (int base = 0; base < used; base += 32) {
    const float2 state =
        base + lane < used ? __ldcg(states + base + lane) : make_float2(kNoReference, 0.0F);
    const float share =
        state.y > 0.0F ? multiply_flushed(state_weight(state.x, most), state.y) : 0.0F;
#pragma unroll 1
    for (int i = 0; i < min(32, used - base); ++i) {
      sum += __shfl_sync(0xFFFFFFFFU, share, i);
    }
  }
  return {most, sum > 0.0F ? 1.0F / sum : 0.0F};
}

// A row's parts, at most 8, loaded at once by a warp: each lane holds elements lane * 2 + 64 w and
// the next of every part, and the state of part `lane`.
template <int kD>
struct LoadedParts {
  static constexpr int kMost = 8;
  float2 state;  // of part `lane`
  float2 pair[kMost][kD / 64];

  __device__ __forceinline__ void load(int head_dim, const float2* states, const float* outs,
                                       int used) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    state = lane < used ? __ldcg(states + lane) : make_float2(kNoReference, 0.0F);
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        const int element = min(w * 64 + lane * 2, head_dim - 2);
        pair[i][w] = i < used
                         ? __ldcg(reinterpret_cast<const float2*>(outs + i * head_dim + element))
                         : make_float2(0.0F, 0.0F);
      }
    }
  }
  // Parts [begin, end), merged in ascending order under their own maximum.
  __device__ __forceinline__ void add(int begin, int end, float factor, float2* value) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool mine = lane >= begin && lane < end && state.y > 0.0F;
    float most = mine ? state.x : kNoReference;
#pragma unroll
    for (int apart = 4; apart > 0; apart /= 2) {  // parts lie in the first eight lanes
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, apart));
    }
    most = __shfl_sync(0xFFFFFFFFU, most, 0);
    const float weight = mine ? state_weight(state.x, most) : 0.0F;
    const float share = multiply_flushed(weight, state.y);
    float sum = 0.0F;
    float2 merged[kD / 64] = {};
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const float w_i = __shfl_sync(0xFFFFFFFFU, weight, i);
      sum += __shfl_sync(0xFFFFFFFFU, share, i);
      if (w_i > 0.0F) {  // an empty part adds nothing
#pragma unroll
        for (int w = 0; w < kD / 64; ++w) {
          merged[w].x = fmaf(w_i, pair[i][w].x, merged[w].x);
          merged[w].y = fmaf(w_i, pair[i][w].y, merged[w].y);
        }
      }
    }
    const float inverse = sum > 0.0F ? factor / sum : 0.0F;
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      value[w].x = fmaf(merged[w].x, inverse, value[w].x);
      value[w].y = fmaf(merged[w].y, inverse, value[w].y);
    }
  }
};

// A warp adds `factor` times the merged output of `used` parts of a row to `value`: elements
// lane * 2 + 64 w and the next. states: [used], outs: [used, d].
template <int kD>
__device__ __noinline__ void add_merged(int head_dim, const float2* states, const float* outs,
                                        int used, float factor, float2* value) {
  constexpr int kBatch = 8;  // loads that fly together
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float2 sum[kD / 64] = {};
  MergedState merged{};
#pragma unroll 1
  for (int base = 0; base < used; base += kBatch) {
    float2 state[kBatch];
    float2 pair[kBatch][kD / 64];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int part = min(base + i, used - 1);
      state[i] = __ldcg(states + part);
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        const int element = min(w * 64 + lane * 2, head_dim - 2);
        pair[i][w] = __ldcg(reinterpret_cast<const float2*>(outs + part * head_dim + element));
      }
    }
    if (base == 0) {
      merged = merge_states(states, used);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (base + i < used && state[i].y > 0.0F) {
        const float weight = state_weight(state[i].x, merged.most);
#pragma unroll
        for (int w = 0; w < kD / 64; ++w) {
          sum[w].x = fmaf(weight, pair[i][w].x, sum[w].x);
          sum[w].y = fmaf(weight, pair[i][w].y, sum[w].y);
        }
      }
    }
  }
#pragma unroll
  for (int w = 0; w < kD / 64; ++w) {
    value[w].x = fmaf(sum[w].x, merged.inverse * factor, value[w].x);
    value[w].y = fmaf(sum[w].y, merged.inverse * factor, value[w].y);
  }
}

}  // namespace versieve::kernels
