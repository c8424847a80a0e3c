// The kept candidates as the verifier takes them, in one block, a thread a node. A node's place in
// a depth-first walk is the sum over its path of one and the subtrees of earlier siblings.
#pragma once

#include <cstdint>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/draft_tree/params.h"

namespace versieve::kernels {

constexpr int kFinishThreads = kMaxTreeNodes;

struct FinishShared {
  std::int32_t parent[kMaxTreeNodes];  // candidates' order, the root first
  std::int32_t size[kMaxTreeNodes];    // nodes of the subtree
  std::int32_t before[kMaxTreeNodes];  // nodes of earlier siblings' subtrees
  std::int32_t place[kMaxTreeNodes];   // in the order asked for
  std::int32_t placed_parent[kMaxTreeNodes];
  std::int32_t position[kMaxTreeNodes];  // by place
  std::int32_t owner[kMaxTreeNodes];
  std::int32_t warp_owners[kMaxTreeNodes / 32];
};

__device__ inline int depth_first_place(FinishShared& s, int node, int count) {
  for (int i = node; i >= 0 && node < count; i = s.parent[i]) {
    atomicAdd(&s.size[i], 1);
  }
  __syncthreads();
  if (node > 0 && node < count) {
    int before = 0;
    for (int i = s.parent[node] + 1; i < node; ++i) {
      before += s.parent[i] == s.parent[node] ? s.size[i] : 0;
    }
    s.before[node] = before;
  }
  __syncthreads();
  int place = 0;
  for (int i = node; i > 0 && node < count; i = s.parent[i]) {
    place += 1 + s.before[i];
  }
  return node < count ? place : node;
}

// Path-local compressed tokens: E is returned.
__device__ inline int write_owners(const FinishTreeParams& p, FinishShared& s) {
  const int node = static_cast<int>(threadIdx.x);
  const int lane = node % 32;
  int start = -1;
  if (p.sparse && node < p.nodes) {
    start = s.position[node] + 1 - static_cast<int>(p.cmp_block);
  }
  const bool owns = start >= 0 && start % static_cast<int>(p.cmp_stride) == 0;
  const unsigned ballot = __ballot_sync(0xFFFFFFFFU, owns);
  if (lane == 0) {
    s.warp_owners[node / 32] = __popc(ballot);
  }
  __syncthreads();
  int row = __popc(ballot & ((1U << lane) - 1U));
  int total = 0;
  for (int warp = 0; warp < kFinishThreads / 32; ++warp) {
    row += warp < node / 32 ? s.warp_owners[warp] : 0;
    total += s.warp_owners[warp];
  }
  if (owns) {
    s.owner[row] = node;
    p.owner[row] = node;
    p.block[row] = start / static_cast<int>(p.cmp_stride);
  }
  __syncthreads();
  return total;
}

// source[e, j]: the token l - 1 - j before the owner on its path.
__device__ inline void write_sources(const FinishTreeParams& p, const FinishShared& s, int owners,
                                     int context_len) {
  const int block = static_cast<int>(p.cmp_block);
  for (int at = static_cast<int>(threadIdx.x); at < owners * block; at += kFinishThreads) {
    int node = s.owner[at / block];
    const int position = s.position[node] - (block - 1 - at % block);
    if (position < context_len) {
      p.source[at] = position;
      continue;
    }
    while (s.position[node] > position) {
      node = s.placed_parent[node];
    }
    p.source[at] = -1 - node;
  }
}

__global__ void __launch_bounds__(kFinishThreads)
    finish_tree_kernel(const __grid_constant__ FinishTreeParams p) {
  __shared__ FinishShared s;
  release_successors();
  wait_for_predecessors();
  const TreePool& pool = p.state->pool;
  const int node = static_cast<int>(threadIdx.x);
  const int context_len = p.state->counts.context_len;
  const int count = p.nodes > 1 ? pool.count + 1 : 1;  // real nodes
  const bool real = node < count;
  const bool drafted = real && node > 0;
  const int token = drafted ? pool.token[node - 1] : p.state->root_token;
  const int depth = drafted ? pool.depth[node - 1] : (real ? 0 : 1);
  s.parent[node] = drafted ? pool.parent[node - 1] + 1 : (real ? -1 : 0);
  s.size[node] = 0;
  s.before[node] = 0;
  __syncthreads();
  const int place = p.order == Traversal::kDfs ? depth_first_place(s, node, count) : node;
  s.place[node] = place;
  __syncthreads();
  if (node < p.nodes) {
    const int parent = s.parent[node] < 0 ? -1 : s.place[s.parent[node]];
    s.placed_parent[place] = parent;
    s.position[place] = context_len + depth;
    p.token[place] = token;
    p.parent[place] = parent;
    p.position[place] = context_len + depth;
  }
  __syncthreads();
  const int owners = write_owners(p, s);
  write_sources(p, s, owners, context_len);
  if (node == 0) {
    p.state->tree_nodes = count;
    p.state->counts.tree_compressed = owners;
  }
}

}  // namespace versieve::kernels
