// Parts of a row (segments, spans of compressed tokens) merged by half a warp, a part a lane. Which
// parts there are depends on the row's own tokens, so the order of sums is the row's own.
#pragma once

#include "kernels/nsa_verify/fused.cuh"

namespace versieve::kernels {

inline constexpr int kRowLanes = 16;

// Over the lanes of a row; all lanes of the warp call these.
__device__ __forceinline__ float row_most(float2 state, bool in) {
  float most = in && state.y > 0.0F ? state.x : kNoReference;
#pragma unroll
  for (int apart = kRowLanes / 2; apart > 0; apart /= 2) {
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, apart));
  }
  return most;
}
// Softmax sums under the reference `most`.
__device__ __forceinline__ float row_sum(float2 state, bool in, float most) {
  float sum = in && state.y > 0.0F ? multiply_flushed(state_weight(state.x, most), state.y) : 0.0F;
#pragma unroll
  for (int apart = kRowLanes / 2; apart > 0; apart /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, apart);
  }
  return sum;
}

// The parts of one row: `spans` spans behind `segments` segments (kSegments or 0). This lane's
// elements: 64 w + 4 lane, + 1, + 2, + 3.
template <int kD>
struct RowParts {
  static constexpr int kBatch = 8;  // loads that fly together

  int head_dim;
  int segments;
  const float2* segment_states;
  const float* segment_outs;
  const float2* span_states;
  const float* span_outs;
  int spans;
  float2 state = {};                  // of part `lane`
  float4 quad[kBatch][kD / 64] = {};  // of a batch of parts

  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % kRowLanes; }
  __device__ __forceinline__ int element(int w) const {
    return min(w * 64 + lane() * 4, head_dim - 4);
  }
  __device__ __forceinline__ float2 state_of(int part) const {
    const int span = part - segments;
    return span < 0 ? __ldcg(segment_states + part)
                    : (span < spans ? __ldcg(span_states + span) : make_float2(kNoReference, 0.0F));
  }
  __device__ __forceinline__ void fetch_batch(int base) {
    const int last = max(segments + spans - 1, 0);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int part = min(base + i, last);
      const int span = part - segments;
      const float* const out =
          span < 0 ? segment_outs + part * head_dim : span_outs + span * head_dim;
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        quad[i][w] = __ldcg(reinterpret_cast<const float4*>(out + element(w)));
      }
    }
  }
  // What the first sums need, before anything waits for it.
  __device__ __forceinline__ void fetch() {
    state = state_of(lane());
    fetch_batch(0);
  }

  // value += the branches' outputs times gates [compressed, selected, window]. Maximum and 1 / sum
  // (0 without a key) of the compressed branch.
  __device__ __forceinline__ float2 add(const float (&gates)[3], float4* value) {
    const int parts = segments + spans;
    const int most_parts = __reduce_max_sync(0xFFFFFFFFU, parts);
    const bool compressed = lane() >= segments;
    float most = row_most(state, compressed);
#pragma unroll 1
    for (int base = kRowLanes; base < most_parts; base += kRowLanes) {
      most = fmaxf(most, row_most(state_of(base + lane()), true));
    }
    float sum = row_sum(state, compressed, most);
#pragma unroll 1
    for (int base = kRowLanes; base < most_parts; base += kRowLanes) {
      sum += row_sum(state_of(base + lane()), true, most);
    }
    const float inverse = sum > 0.0F ? 1.0F / sum : 0.0F;
    float own_most = most;
    float own_factor = inverse * gates[0];
    if (segments > 0) {
      const bool selected = lane() < kSelectedSegments;
      const bool window = lane() < kSegments && !selected;
      const float mosts[2] = {row_most(state, selected), row_most(state, window)};
      const float sums[2] = {row_sum(state, selected, mosts[0]), row_sum(state, window, mosts[1])};
      if (!compressed) {
        own_most = selected ? mosts[0] : mosts[1];
        const float own_sum = selected ? sums[0] : sums[1];
        own_factor = own_sum > 0.0F ? (selected ? gates[1] : gates[2]) / own_sum : 0.0F;
      }
    }
    float weight = 0.0F;
#pragma unroll 1
    for (int base = 0; base < most_parts; base += kBatch) {
      if (base % kRowLanes == 0) {
        const float2 own = base == 0 ? state : state_of(base + lane());
        weight = own.y > 0.0F ? multiply_flushed(state_weight(own.x, base == 0 ? own_most : most),
                                                 base == 0 ? own_factor : inverse * gates[0])
                              : 0.0F;
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {  // parts that are not there weigh 0
        const float share = __shfl_sync(0xFFFFFFFFU, weight, (base + i) % kRowLanes, kRowLanes);
#pragma unroll
        for (int w = 0; w < kD / 64; ++w) {
          const float4 x = quad[i][w];
          value[w].x = share != 0.0F ? fmaf(share, x.x, value[w].x) : value[w].x;
          value[w].y = share != 0.0F ? fmaf(share, x.y, value[w].y) : value[w].y;
          value[w].z = share != 0.0F ? fmaf(share, x.z, value[w].z) : value[w].z;
          value[w].w = share != 0.0F ? fmaf(share, x.w, value[w].w) : value[w].w;
        }
      }
      if (base + kBatch < most_parts) {
        fetch_batch(base + kBatch);
      }
    }
    return make_float2(most, inverse);
  }
};

}  // namespace versieve::kernels
