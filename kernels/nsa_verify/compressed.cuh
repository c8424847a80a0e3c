// nsa_compressed: softmax state and unnormalised output of one span of compressed tokens, and the
// scores that nsa_select turns into probabilities.
// Grid: (node, KV head, span of 512 compressed tokens); traffic: traffic::nsa_compressed.
// Bound by L2 reads: each node reads the whole compressed cache.
#pragma once

#include "kernels/nsa_verify/vanilla.cuh"

namespace versieve::kernels {

// Row of k_cmp_tree owned by `node`, or -1. Owners ascend.
__device__ inline int owned_row(const std::int32_t* owner, int count, int node) {
  int low = 0;
  int high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (owner[middle] < node) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && owner[low] == node ? low : -1;
}

// rows[i] = row of k_cmp_tree for compressed token Lc + i of the node's path, or -1.
template <class T>
__device__ void find_path_rows(const NsaVerifyParams<T>& p, int node, std::int64_t t,
                               std::int64_t count, int* parents, int* ancestors, int* rows) {
  const int depth = static_cast<int>(t - p.context_len);
  walk_ancestors(p.parent, node, depth + 1, parents, ancestors);
  for (int i = static_cast<int>(threadIdx.x); i < count - p.num_compressed;
       i += static_cast<int>(blockDim.x)) {
    const std::int64_t last = (p.num_compressed + i) * p.nsa.cmp_stride + p.nsa.cmp_block - 1;
    rows[i] =
        owned_row(p.cmp_tree_owner, static_cast<int>(p.num_tree_compressed), ancestors[t - last]);
  }
  __syncthreads();
}

template <class T, int kLanesPerKey>
__global__ void __launch_bounds__(kMaxAttentionThreads)
    nsa_compressed_kernel(const __grid_constant__ VanillaArguments<T> a) {
  extern __shared__ float shared[];
  const NsaVerifyParams<T>& p = a.p;
  const int node = static_cast<int>(blockIdx.x);
  const std::int64_t g = blockIdx.y;
  const int span = static_cast<int>(blockIdx.z);
  const std::int64_t t = p.position[node];
  const std::int64_t count = device_compressed_count(p.nsa, t + 1);
  const std::int64_t first = static_cast<std::int64_t>(span) * kSpan;
  const std::int64_t end = min(count, first + kSpan);
  if (first >= end) {
    return;
  }
  int* parents = reinterpret_cast<int*>(shared);
  int* ancestors = parents + p.num_queries;
  int* rows = ancestors + p.num_queries;
  if (end > p.num_compressed) {
    find_path_rows(p, node, t, count, parents, ancestors, rows);
  }
  const auto row_at = [&](std::int64_t i) -> KeyRow<T> {
    if (i >= end) {
      return {};
    }
    const bool committed = i < p.num_compressed;
    const std::int64_t row = committed ? p.compressed_pages.row(i) : rows[i - p.num_compressed];
    const std::int64_t offset = (row * p.num_kv_heads + g) * p.head_dim;
    return row < 0 ? KeyRow<T>{}
                   : KeyRow<T>{(committed ? p.k_cmp : p.k_cmp_tree) + offset,
                               (committed ? p.v_cmp : p.v_cmp_tree) + offset};
  };
  const std::int64_t pair = static_cast<std::int64_t>(node) * p.num_kv_heads + g;
  const int tile = static_cast<int>(threadIdx.x) / 32 / kWarpsPerTile;
  const auto keep_scores = [&](std::int64_t i, const float* scores) {
    if (a.scores != nullptr && i < end) {
      float* to = a.scores + (pair * a.max_compressed + i) * a.padded_heads + tile * kTileHeads;
      *reinterpret_cast<float4*>(to) = make_float4(scores[0], scores[1], scores[2], scores[3]);
    }
  };
  const T* q = p.q + (node * p.num_heads + g * a.group_heads) * p.head_dim;
  WarpAttention<T, kLanesPerKey> attention(q, a.group_heads, static_cast<int>(p.head_dim));
  for (std::int64_t base = first; base < end; base += kDeviceChunk) {
    attention.absorb(base, row_at, keep_scores);
  }
  __syncthreads();  // `rows` is no longer read
  attention.merge(shared, a.group_heads,
                  [&](int head, int element, float value, float most, float sum) {
                    const std::int64_t row = (pair * a.spans + span) * a.padded_heads + head;
                    a.partials[row * p.head_dim + element] = value;
                    if (element == 0) {
                      a.states[row * 2] = most;
                      a.states[row * 2 + 1] = sum;
                    }
                  });
}

}  // namespace versieve::kernels
