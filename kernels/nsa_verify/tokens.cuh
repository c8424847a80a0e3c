// nsa_selected and nsa_window: attention over tokens of the node's path, those of its chosen blocks
// or those of its window, committed and drafted alike.
// Grid: (node, KV head). Traffic: traffic::nsa_selected, traffic::nsa_window. Bound by memory at
// few nodes, by L2 reads at many.
#pragma once

#include "kernels/nsa_verify/vanilla.cuh"

namespace versieve::kernels {

enum class TokenBranch { kSelected, kWindow };

template <class T, int kLanesPerKey, TokenBranch kBranch>
__global__ void __launch_bounds__(kMaxAttentionThreads)
    nsa_tokens_kernel(const __grid_constant__ VanillaArguments<T> a) {
  extern __shared__ float shared[];
  const NsaVerifyParams<T>& p = a.p;
  const int node = static_cast<int>(blockIdx.x);
  const std::int64_t g = blockIdx.y;
  const std::int64_t t = p.position[node];
  int* parents = reinterpret_cast<int*>(shared);
  int* ancestors = parents + p.num_queries;
  walk_ancestors(p.parent, node, static_cast<int>(t - p.context_len) + 1, parents, ancestors);
  const T* q = p.q + (node * p.num_heads + g * a.group_heads) * p.head_dim;
  WarpAttention<T, kLanesPerKey> attention(q, a.group_heads, static_cast<int>(p.head_dim));
  // Tokens [first, last], by chunks of positions.
  const auto attend = [&](std::int64_t first, std::int64_t last) {
    const auto row_at = [&](std::int64_t position) -> KeyRow<T> {
      if (position < first || position > last) {
        return {};
      }
      const bool committed = position < p.context_len;
      const std::int64_t row = committed ? p.pages.row(position) : ancestors[t - position];
      const std::int64_t offset = (row * p.num_kv_heads + g) * p.head_dim;
      return {(committed ? p.k : p.k_tree) + offset, (committed ? p.v : p.v_tree) + offset};
    };
    for (std::int64_t base = first / kDeviceChunk * kDeviceChunk; base <= last && first <= last;
         base += kDeviceChunk) {
      attention.absorb(base, row_at, NoScores{});
    }
  };
  if constexpr (kBranch == TokenBranch::kWindow) {
    attend(max(std::int64_t{0}, t - p.nsa.window + 1), t);
  } else {
    const std::int32_t* chosen = p.indices + (node * p.num_kv_heads + g) * p.nsa.sel_count;
    for (int i = 0; i < p.nsa.sel_count && chosen[i] >= 0; ++i) {
      const std::int64_t first = chosen[i] * p.nsa.sel_block;
      attend(first, min(first + p.nsa.sel_block - 1, t));
    }
  }
  __syncthreads();  // `ancestors` is no longer read
  float* out = (kBranch == TokenBranch::kWindow ? a.window : a.selected) +
               (node * p.num_heads + g * a.group_heads) * p.head_dim;
  attention.merge(shared, a.group_heads, [&](int head, int element, float value, float, float sum) {
    out[head * p.head_dim + element] = sum > 0.0F ? value / sum : 0.0F;
  });
}

}  // namespace versieve::kernels
