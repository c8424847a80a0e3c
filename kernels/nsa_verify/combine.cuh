// nsa_combine: merges the compressed spans in ascending order and adds the three gated branches.
// Grid: four elements a thread. Traffic: traffic::nsa_combine.
#pragma once

#include "kernels/nsa_verify/vanilla.cuh"

namespace versieve::kernels {

inline constexpr int kCombineThreads = 128;

// Compressed branch of four elements from `element` on; 0 without a visible token.
template <class T>
__device__ float4 merged_spans(const VanillaArguments<T>& a, int node, int head, int element) {
  const NsaVerifyParams<T>& p = a.p;
  const std::int64_t count = device_compressed_count(p.nsa, std::int64_t{p.position[node]} + 1);
  const int spans = static_cast<int>((count + kSpan - 1) / kSpan);
  const std::int64_t pair = node * p.num_kv_heads + head / a.group_heads;
  const std::int64_t first = pair * a.spans * a.padded_heads + head % a.group_heads;
  float most = minus_infinity();
  for (int i = 0; i < spans; ++i) {
    most = fmaxf(most, a.states[(first + i * a.padded_heads) * 2]);
  }
  float sum = 0.0F;
  float4 value = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  for (int i = 0; i < spans; ++i) {
    const std::int64_t row = first + i * a.padded_heads;
    const float m = a.states[row * 2];
    const float factor = m == minus_infinity() ? 0.0F : exp2f(m - most);
    const float4 part = *reinterpret_cast<const float4*>(a.partials + row * p.head_dim + element);
    sum = fmaf(factor, a.states[row * 2 + 1], sum);
    value.x = fmaf(factor, part.x, value.x);
    value.y = fmaf(factor, part.y, value.y);
    value.z = fmaf(factor, part.z, value.z);
    value.w = fmaf(factor, part.w, value.w);
  }
  const float inverse = sum > 0.0F ? 1.0F / sum : 0.0F;
  return make_float4(value.x * inverse, value.y * inverse, value.z * inverse, value.w * inverse);
}

template <class T>
__global__ void __launch_bounds__(kCombineThreads)
    nsa_combine_kernel(const __grid_constant__ VanillaArguments<T> a) {
  const NsaVerifyParams<T>& p = a.p;
  const std::int64_t i =
      (static_cast<std::int64_t>(blockIdx.x) * kCombineThreads + threadIdx.x) * 4;
  if (i >= p.num_queries * p.num_heads * p.head_dim) {
    return;
  }
  const std::int64_t row = i / p.head_dim;
  const int node = static_cast<int>(row / p.num_heads);
  const int head = static_cast<int>(row % p.num_heads);
  const float4 compressed = merged_spans(a, node, head, static_cast<int>(i % p.head_dim));
  const float4 selected = *reinterpret_cast<const float4*>(a.selected + i);
  const float4 window = *reinterpret_cast<const float4*>(a.window + i);
  const float gate[3] = {device_float(p.gates[row * 3]), device_float(p.gates[row * 3 + 1]),
                         device_float(p.gates[row * 3 + 2])};
  const auto gated = [&](float x, float y, float z) {
    return fmaf(gate[2], z, fmaf(gate[1], y, gate[0] * x));
  };
  store_f32(p.out + i, gated(compressed.x, selected.x, window.x));
  store_f32(p.out + i + 1, gated(compressed.y, selected.y, window.y));
  store_f32(p.out + i + 2, gated(compressed.z, selected.z, window.z));
  store_f32(p.out + i + 3, gated(compressed.w, selected.w, window.w));
}

}  // namespace versieve::kernels
