// The selection of nsa_verify with kernels/topk in the middle. nsa_weigh: importance of every
// selection block of a node and KV head as a row to rank, forced blocks at infinity, blocks past
// the node at -infinity (grid: node, KV head; as nsa_select, without its rounds of maxima). Then
// topk. nsa_trim: -1 for what was chosen only because there was nothing else (a thread an index).
// Same blocks as nsa_select: importance is summed alike, ties go to the lower block in both.
// Traffic: traffic::nsa_weigh, traffic::topk, traffic::nsa_trim.
#pragma once

#include "kernels/nsa_verify/select.cuh"

namespace versieve::kernels {

inline constexpr int kTrimThreads = 256;

// One hint serves every node of the call: each of them follows the query that chose it.
template <class T>
__device__ void repeat_hint(const VanillaArguments<T>& a, const Routing& routing) {
  const NsaVerifyParams<T>& p = a.p;
  const std::int32_t* hint = p.hint + static_cast<std::int64_t>(blockIdx.y) * p.nsa.sel_count;
  std::int32_t* own = a.hints + routing.row * p.nsa.sel_count;
  for (int i = static_cast<int>(threadIdx.x); i < p.nsa.sel_count; i += kNsaSelectThreads) {
    own[i] = hint[i];
  }
}

template <class T>
__global__ void __launch_bounds__(kNsaSelectThreads)
    nsa_weigh_kernel(const __grid_constant__ VanillaArguments<T> a) {
  extern __shared__ float shared[];
  const NsaVerifyParams<T>& p = a.p;
  const NsaSelectShared s(shared, 0, 0);
  const Routing routing(p);
  float* ranked = a.ranked + routing.row * p.num_blocks;
  if (p.hint != nullptr) {
    repeat_hint(a, routing);
  }
  merge_head_states(a, routing.pair, static_cast<int>((routing.count + kSpan - 1) / kSpan), s);
  const auto store = [&](std::int64_t j, float sum) {
    const bool forced = j < p.nsa.init_blocks || j > routing.own - p.nsa.local_blocks;
    ranked[j] = forced ? -minus_infinity() : sum;
  };
  weigh_blocks(a, routing, store, s);
  for (std::int64_t j = routing.own + 1 + threadIdx.x; j < p.num_blocks; j += kNsaSelectThreads) {
    ranked[j] = minus_infinity();
  }
}

template <class T>
__global__ void __launch_bounds__(kTrimThreads)
    nsa_trim_kernel(const __grid_constant__ VanillaArguments<T> a) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kTrimThreads + threadIdx.x;
  if (i < a.p.num_queries * a.p.num_kv_heads * a.p.nsa.sel_count &&
      a.values[i] == minus_infinity()) {
    a.p.indices[i] = -1;
  }
}

}  // namespace versieve::kernels
