// A query head's branches merged, gated and handed on: the last part of a layer's attention in
// decode_layers, with the sums of nsa_verify/fused_merge.cuh and fused_attend.cuh. Three warps a
// head; a lane has two elements of every 64.
#pragma once

#include "kernels/decode_layers/attend.cuh"
#include "kernels/decode_layers/stages.cuh"
#include "kernels/ptx/arithmetic.cuh"
#include "kernels/ptx/block.cuh"
#include "kernels/ptx/packets.cuh"

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
  // To another warp; a lane reads what the same lane wrote.
  __device__ __forceinline__ void write(float (&to)[kBranchFloats]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      reinterpret_cast<float2*>(to)[w * 32 + lane] = out[w];
    }
    if (lane == 0) {
      to[kBranchFloats - 1] = mass;
    }
  }
  __device__ __forceinline__ void read(const float (&from)[kBranchFloats]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      out[w] = reinterpret_cast<const float2*>(from)[w * 32 + lane];
    }
    mass = from[kBranchFloats - 1];
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

// An element of the joint row as packets that carry it: its two slices, or it and its neighbours in
// bf16.
struct JointElement {
  const uint2* at;

  __device__ __forceinline__ JointElement(const DecodeCta& c, const uint2* mail, int element) {
    const DecodeMail& lies = c.a.mail;
    at = mail +
         (c.joint_in_slices() ? lies.partials[kJoint] + element * 2 : lies.joint + element / 4 * 2);
  }
  // `scale`: of the row; slices are summed, divided by the RMS and rounded here.
  __device__ __forceinline__ static float value(const DecodeCta& c, uint4 packets, int element,
                                                float scale) {
    const std::uint32_t word = element & 2 ? packets.z : packets.x;
    if (!c.joint_in_slices()) {
      return __uint_as_float(element & 1 ? word & 0xFFFF0000U : word << 16);
    }
    const float x = (0.0F + __uint_as_float(packets.x) + __uint_as_float(packets.z)) * scale;
    return __uint_as_float(pack_bf16(0.0F, x) & 0xFFFF0000U);
  }
};

// A gate of the joint row: element `element`, through the sigmoid, rounded as rope_append does.
__device__ __forceinline__ float receive_gate(const DecodeCta& c, const uint2* mail, int element,
                                              int layer, unsigned epoch) {
  const uint4 packets = receive(JointElement(c, mail, element).at, epoch);
  const float scale = c.joint_in_slices() ? row_scale(c, kJoint, layer) : 1.0F;
  const float x = JointElement::value(c, packets, element, scale);
  return __uint_as_float(pack_bf16(logistic(x), 0.0F) << 16);
}

// A branch: parts [0, count) of one head, by packets. Their states and the outputs of the first
// ones come together. `joins`: parts are spans, ascending within their join, then joins. One warp;
// `weights` is its own memory.
template <int kD>
__device__ __forceinline__ BranchSum<kD> receive_branch(const uint2* states, const uint2* outs,
                                                        int count, bool joins, unsigned epoch,
                                                        float2* weights) {
  constexpr int kBatch = 8;
  constexpr int kWide = kD / 64;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  BranchSum<kD> total;
  if (count == 0) {
    return total;
  }
  // What lies past the last part is that part once more: no load hangs on a condition.
  const auto ask = [&](int base, uint4(&x)[kWide][kBatch]) {
    bool waits = false;
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        x[w][i] = load_packets(outs + min(base + i, count - 1) * kD + w * 64 + lane * 2);
      }
    }
#pragma unroll
    for (int w = 0; w < kWide; ++w) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        waits |= !arrived(x[w][i], epoch);
      }
    }
    return waits;
  };
  uint4 x[kWide][kBatch];
  uint4 known;
  bool waits;
  do {  // what all branches but long spans are: one round trip
    known = load_packets(states + min(lane, count - 1) * 2);
    waits = ask(0, x) || !arrived(known, epoch);
  } while (waits);
  float most = kNoReference;
#pragma unroll 1
  for (int part = lane; part < count; part += 32) {
    const uint4 packet = part < 32 ? known : receive(states + part * 2, epoch);
    const float2 state = make_float2(__uint_as_float(packet.x), __uint_as_float(packet.z));
    weights[part] = state;
    most = state.y > 0.0F ? fmaxf(most, state.x) : most;
  }
  most = warp_most(most);
#pragma unroll 1
  for (int part = lane; part < count; part += 32) {
    const float2 state = weights[part];
    const float weight = state.y > 0.0F ? state_weight(state.x, most) : 0.0F;
    weights[part] = make_float2(weight, state.y > 0.0F ? multiply_flushed(weight, state.y) : 0.0F);
  }
  __syncwarp();
  BranchSum<kD> join;
#pragma unroll 1
  for (int base = 0; base < count; base += kBatch) {
    while (base > 0 && ask(base, x)) {
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int part = base + i;
      if (part < count) {
        float2 out[kWide];
#pragma unroll
        for (int w = 0; w < kWide; ++w) {
          out[w] = make_float2(__uint_as_float(x[w][i].x), __uint_as_float(x[w][i].z));
        }
        join.add(weights[part].x, weights[part].y, out);
        if ((joins && ends_join(part)) || part + 1 == count) {
          total.add(1.0F, join.mass, join.out);
          join = BranchSum<kD>{};
        }
      }
    }
  }
  __syncwarp();
  return total;
}

// Query head `head` of this CTA's KV head, by warps kMergingWarp and those behind, a branch each:
// that of the chosen blocks, which come last, puts them together.
template <int kD>
__device__ __forceinline__ void merge_head(const DecodeCta& c, int head, int spans, bool routes,
                                           uint2* mail, int layer, unsigned epoch) {
  const DecodeArguments& a = c.a;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = c.g * a.group_heads + head;
  const int branch = c.warp - kMergingWarp;  // chosen blocks, window, compressed tokens
  const bool last = branch == 0;
  const int part = branch == 0 ? 0 : branch == 1 ? kSelectedSegments : kSegments;
  const int count = branch == 0 ? kSelectedSegments : branch == 1 ? kWindowSegments : spans;
  const int first_part = row * (kSegments + a.max_spans) + part;
  const int gates_at = (a.heads + 2 * a.kv_heads) * kD + row * 3;
  const float own_gate = receive_gate(c, mail, gates_at + lane % 3, layer, epoch);
  const BranchSum<kD> sum = receive_branch<kD>(mail + a.mail.part_states + first_part * 2,
                                               mail + a.mail.part_outs + first_part * kD, count,
                                               branch == 2, epoch, c.shared.span_state[branch]);
  if (!last) {
    sum.write(c.shared.branch[branch - 1]);
  }
  meet<2, kBranches * 32>();
  if (!last) {
    return;
  }
  BranchSum<kD> compressed, window;
  window.read(c.shared.branch[0]);
  compressed.read(c.shared.branch[1]);
  const float gate[3] = {__shfl_sync(0xFFFFFFFFU, own_gate, 0),
                         __shfl_sync(0xFFFFFFFFU, own_gate, 1),
                         __shfl_sync(0xFFFFFFFFU, own_gate, 2)};
  // A routing layer has its compressed branch normalised before the gate, a reuse layer with it.
  float2 value[kD / 64] = {};
  if (routes) {
    compressed.put(1.0F, value);
#pragma unroll
    for (int w = 0; w < kD / 64; ++w) {
      value[w] = make_float2(gate[0] * value[w].x, gate[0] * value[w].y);
    }
  }
  sum.put(gate[1], value);
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
