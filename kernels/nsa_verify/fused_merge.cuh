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
// A sum of parts under one reference.
template <int kD>
struct PartSum {
  float4 out[kD / 64] = {};
  float mass = 0.0F;  // softmax sum

  __device__ __forceinline__ void add(float weight, float own_mass, const float4* x) {
    mass += own_mass;
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      out[w].x = fmaf(weight, x[w].x, out[w].x);
      out[w].y = fmaf(weight, x[w].y, out[w].y);
      out[w].z = fmaf(weight, x[w].z, out[w].z);
      out[w].w = fmaf(weight, x[w].w, out[w].w);
    }
  }
  // value += gate times the average; without a key nothing.
  __device__ __forceinline__ float put(float gate, float4* value) const {
    const float inverse = mass > 0.0F ? __fdividef(1.0F, mass) : 0.0F;
    const float share = inverse * gate;
#pragma unroll
    for (int w = 0; w < kD / 64 && mass > 0.0F; ++w) {
      value[w].x = fmaf(share, out[w].x, value[w].x);
      value[w].y = fmaf(share, out[w].y, value[w].y);
      value[w].z = fmaf(share, out[w].z, value[w].z);
      value[w].w = fmaf(share, out[w].w, value[w].w);
    }
    return inverse;
  }
};

// The parts of one row: `spans` spans (joins, if `joined`) behind `segments` segments (kSegments or
// 0). This lane's elements: 64 w + 4 lane, + 1, + 2, + 3.
//
// Order of sums: a branch's segments ascending; spans ascending within their join, then joins. A
// part counts by an exact power of two, gates and 1 / sum come last.
template <int kD>
struct RowParts {
  static constexpr int kBatch = 8;  // loads that fly together
  static_assert(kBatch == kSegments, "segments are a batch of their own");

  int head_dim;
  int segments;
  const float2* segment_states;
  const float* segment_outs;
  const float2* span_states;
  const float* span_outs;
  int spans;
  bool joined;
  float2 state[2] = {};                // of parts `lane` and `lane` + 16
  float4 quad[kBatch][kD / 64] = {};   // of a batch of parts
  float4 ahead[kBatch][kD / 64] = {};  // of the next one

  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % kRowLanes; }
  __device__ __forceinline__ int element(int w) const {
    return min(w * 64 + lane() * 4, head_dim - 4);
  }
  __device__ __forceinline__ float2 state_of(int part) const {
    const int span = part - segments;
    return span < 0 ? __ldcg(segment_states + part)
                    : (span < spans ? __ldcg(span_states + span) : make_float2(kNoReference, 0.0F));
  }
  // Past the last part the last one again, which will weigh nothing.
  __device__ __forceinline__ void fetch_batch(int base, float4 (&to)[kBatch][kD / 64]) const {
    const int last = max(segments + spans - 1, 0);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int part = min(base + i, last);
      const int span = part - segments;
      const float* const out =
          span < 0 ? segment_outs + part * head_dim : span_outs + span * head_dim;
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        to[i][w] = __ldcg(reinterpret_cast<const float4*>(out + element(w)));
      }
    }
  }
  // What the first sums need, before anything waits for it.
  __device__ __forceinline__ void fetch() {
    state[0] = state_of(lane());
    state[1] = state_of(lane() + kRowLanes);
    fetch_batch(0, quad);
    if (segments + spans > kBatch) {
      fetch_batch(kBatch, ahead);
    }
  }

  // value += the branches' outputs times gates [compressed, selected, window]. Maximum and 1 / sum
  // (0 without a key) of the compressed branch.
  __device__ __forceinline__ float2 add(const float (&gates)[3], float4* value) {
    const int most_parts = __reduce_max_sync(0xFFFFFFFFU, segments + spans);
    const float most = compressed_most(most_parts);
    float2 weights = weigh(state[0], own_most(most));  // and masses of this lane's part
    if (segments > 0) {
      PartSum<kD> selected;
      PartSum<kD> window;
#pragma unroll
      for (int i = 0; i < kSegments; ++i) {
        (i < kSelectedSegments ? selected : window)
            .add(of_lane(weights.x, i), of_lane(weights.y, i), quad[i]);
      }
      next_batch(kBatch);
      selected.put(gates[1], value);
      window.put(gates[2], value);
    }
    PartSum<kD> total;
    PartSum<kD> join;
#pragma unroll 1
    for (int base = segments; base < most_parts; base += kBatch) {
      if (base > 0 && base % kRowLanes == 0) {
        weights = weigh(base == kRowLanes ? state[1] : state_of(base + lane()), most);
      }
      // Joins of four short spans, then of two long ones.
      const unsigned ends = joined ? 0xFFU : (base == segments ? 0x88U : 0xAAU);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        join.add(of_lane(weights.x, base + i), of_lane(weights.y, base + i), quad[i]);
        if ((ends >> i & 1U) != 0U) {
          total.add(1.0F, join.mass, join.out);
          join = PartSum<kD>{};
        }
      }
      next_batch(base + kBatch);
    }
    return make_float2(most, total.put(gates[0], value));
  }

 private:
  __device__ __forceinline__ static float of_lane(float x, int part) {
    return __shfl_sync(0xFFFFFFFFU, x, part % kRowLanes, kRowLanes);
  }
  __device__ __forceinline__ static float2 weigh(float2 own, float most) {
    const float weight = own.y > 0.0F ? state_weight(own.x, most) : 0.0F;
    return make_float2(weight, own.y > 0.0F ? multiply_flushed(weight, own.y) : 0.0F);
  }
  // The batch at `base` becomes the one at hand.
  __device__ __forceinline__ void next_batch(int base) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
#pragma unroll
      for (int w = 0; w < kD / 64; ++w) {
        quad[i][w] = ahead[i][w];
      }
    }
    if (base + kBatch < segments + spans) {
      fetch_batch(base + kBatch, ahead);
    }
  }
  // The greatest reference of the compressed branch.
  __device__ __forceinline__ float compressed_most(int most_parts) const {
    float most = row_most(state[0], lane() >= segments);
    if (most_parts > kRowLanes) {
      most = fmaxf(most, row_most(state[1], true));
    }
#pragma unroll 1
    for (int base = 2 * kRowLanes; base < most_parts; base += kRowLanes) {
      most = fmaxf(most, row_most(state_of(base + lane()), true));
    }
    return most;
  }
  // The greatest reference of the branch that part `lane` belongs to.
  __device__ __forceinline__ float own_most(float most) const {
    if (segments == 0) {
      return most;
    }
    const bool selected = lane() < kSelectedSegments;
    const bool window = lane() < kSegments && !selected;
    const float selected_most = row_most(state[0], selected);
    const float window_most = row_most(state[0], window);
    return selected ? selected_most : (window ? window_most : most);
  }
};

}  // namespace versieve::kernels
