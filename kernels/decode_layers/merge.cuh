// A query head's branches merged, gated and handed on: the last part of a layer's attention in
// decode_layers, with the sums of nsa_verify/fused_merge.cuh and fused_attend.cuh. One warp a head;
// a lane has two elements of every 64.
#pragma once

#include "kernels/decode_layers/attend.cuh"

namespace versieve::kernels {

// A branch's sum under one reference.
template <int kD>
struct BranchSum {
  float2 out[kD / 64] = {};
  float mass = 0.0F;

  __device__ __forceinline__ void add(float weight, float own_mass, const float2 (&x)[kD / 64]) {
    mass += own_mass;
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      out[w].x = fmaf(weight, x[w].x, out[w].x);
      out[w].y = fmaf(weight, x[w].y, out[w].y);
    }
  }
  // value += gate times the average; without a key nothing.
  __device__ __forceinline__ void put(float gate, float2 (&value)[kD / 64]) const {
    const float share = (mass > 0.0F ? __fdividef(1.0F, mass) : 0.0F) * gate;
#pragma unroll
    for (int w = 0; w < kD / 64 && mass > 0.0F; ++w) {
      value[w].x = fmaf(share, out[w].x, value[w].x);
      value[w].y = fmaf(share, out[w].y, value[w].y);
    }
  }
};

__device__ __forceinline__ float warp_most(float x) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, apart));
  }
  return x;
}

// Weights and masses of parts [0, count), by packets from `from`, into `to`; one warp.
__device__ __forceinline__ void weigh_parts(const uint2* from, int count, unsigned epoch,
                                            float2* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float most = kNoReference;
#pragma unroll 1
  for (int part = lane; part < count; part += 32) {
    const uint4 x = receive(from + part * 2, epoch);
    const float2 state = make_float2(__uint_as_float(x.x), __uint_as_float(x.z));
    to[part] = state;
    most = state.y > 0.0F ? fmaxf(most, state.x) : most;
  }
  most = warp_most(most);
#pragma unroll 1
  for (int part = lane; part < count; part += 32) {
    const float2 state = to[part];
    const float weight = state.y > 0.0F ? state_weight(state.x, most) : 0.0F;
    to[part] = make_float2(weight, state.y > 0.0F ? multiply_flushed(weight, state.y) : 0.0F);
  }
  __syncwarp();
}

// Outputs of kCount parts from part `first` on, those below `count`; the others are zero.
template <int kD, int kCount>
__device__ __forceinline__ void receive_outs(const uint2* from, int first, int count,
                                             unsigned epoch, float2 (&x)[kCount][kD / 64]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int w = 0; w < kD / 64; ++w) {
    uint4 packets[kCount];
    receive(from + first * kD + w * 64 + lane * 2, kD, min(count - first, kCount), epoch, packets);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      x[i][w] = first + i < count
                    ? make_float2(__uint_as_float(packets[i].x), __uint_as_float(packets[i].z))
                    : make_float2(0.0F, 0.0F);
    }
  }
}

// A gate of the joint row: element `element`, through the sigmoid, rounded as rope_append does.
__device__ __forceinline__ float receive_gate(const uint2* joint, int element, unsigned epoch) {
  const uint4 pair = receive(joint + element / 2 / 2 * 2, epoch);
  const std::uint32_t word = element / 2 % 2 == 0 ? pair.x : pair.z;
  const float x = __uint_as_float(element % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
  return __uint_as_float(pack_bf16(logistic(x), 0.0F) << 16);
}

// The compressed branch: spans ascending within their join, then joins.
template <int kD>
__device__ __forceinline__ BranchSum<kD> sum_spans(const uint2* outs, int spans,
                                                   const float2* weights, unsigned epoch) {
  constexpr int kBatch = 8;
  BranchSum<kD> total;
  BranchSum<kD> join;
#pragma unroll 1
  for (int base = 0; base < spans; base += kBatch) {
    float2 x[kBatch][kD / 64];
    receive_outs<kD, kBatch>(outs, base, spans, epoch, x);
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int span = base + i;
      if (span < spans) {
        join.add(weights[span].x, weights[span].y, x[i]);
        if (ends_join(span) || span + 1 == spans) {
          total.add(1.0F, join.mass, join.out);
          join = BranchSum<kD>{};
        }
      }
    }
  }
  return total;
}

// Query head `head` of this CTA's KV head; one warp.
template <int kD>
__device__ __forceinline__ void merge_head(const DecodeCta& c, int head, int spans, bool routes,
                                           uint2* mail, unsigned epoch) {
  const DecodeArguments& a = c.a;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = c.g * a.group_heads + head;
  const int first_part = row * (kSegments + a.max_spans);
  const uint2* const states = mail + a.mail.part_states + first_part * 2;
  const uint2* const outs = mail + a.mail.part_outs + first_part * kD;
  float2* const weights = c.shared.span_state[0];
  const int gates_at = (a.heads + 2 * a.kv_heads) * kD + row * 3;
  float gate[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    gate[i] = receive_gate(mail + a.mail.joint, gates_at + i, epoch);
  }
  weigh_parts(states + kSegments * 2, spans, epoch, weights);
  const BranchSum<kD> compressed = sum_spans<kD>(outs + kSegments * kD, spans, weights, epoch);
  __syncwarp();
  weigh_parts(states + kSelectedSegments * 2, kWindowSegments, epoch, weights);
  float2 x[kWindowSegments][kD / 64];
  receive_outs<kD, kWindowSegments>(outs + kSelectedSegments * kD, 0, kWindowSegments, epoch, x);
  BranchSum<kD> window;
#pragma unroll
  for (int i = 0; i < kWindowSegments; ++i) {
    window.add(weights[i].x, weights[i].y, x[i]);
  }
  __syncwarp();
  weigh_parts(states, kSelectedSegments, epoch, weights);
  float2 y[kSelectedSegments][kD / 64];
  receive_outs<kD, kSelectedSegments>(outs, 0, kSelectedSegments, epoch, y);
  BranchSum<kD> selected;
#pragma unroll
  for (int i = 0; i < kSelectedSegments; ++i) {
    selected.add(weights[i].x, weights[i].y, y[i]);
  }
  // A routing layer has its compressed branch normalised before the gate, a reuse layer with it.
  float2 value[kD / 64] = {};
  if (routes) {
    compressed.put(1.0F, value);
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      value[w] = make_float2(gate[0] * value[w].x, gate[0] * value[w].y);
    }
  }
  selected.put(gate[1], value);
  window.put(gate[2], value);
  if (!routes) {
    compressed.put(gate[0], value);
  }
#pragma unroll
  for (int w = 0; w < kD / 64; ++w) {
    send_packet(mail + a.mail.attended + (row * kD + w * 64) / 2 + lane,
                pack_bf16(value[w].x, value[w].y), epoch);
  }
}

}  // namespace versieve::kernels
