// The accepted path in one block, a thread a node: each node offers itself to its parent if it
// holds the target's choice there, the lowest wins, and one thread walks the winners. Then the
// commit's copies, a block a row, layer and kind.
#pragma once

#include <cstdint>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/draft_tree/params.h"

namespace versieve::kernels {

constexpr int kAcceptThreads = kMaxTreeNodes;
constexpr int kCommitThreads = 128;

struct AcceptShared {
  std::int32_t parent[kMaxTreeNodes];
  std::int32_t child[kMaxTreeNodes];    // the child that holds the target's choice, or a large one
  std::int32_t path_at[kMaxTreeNodes];  // index on the path, or -1
  std::int32_t path[kMaxPathNodes];
  std::int32_t path_compressed[kMaxPathNodes];
  std::int32_t last;
  std::int32_t deepest;
  std::int32_t forced_end;
  std::int32_t path_count;
  std::int32_t compressed_count;
};

constexpr int kNoNode = 1 << 30;

// The first node at the depth at which the forced path ends.
__device__ inline void find_forced_end(const AcceptTreeParams& p, AcceptShared& s, int node,
                                       int count, int root_position, int forced) {
  const int depth = node < count ? p.position[node] - root_position : 0;
  if (node < count) {
    atomicMax(&s.deepest, depth);
  }
  __syncthreads();
  if (node < count && depth == min(forced - 1, s.deepest)) {
    atomicMin(&s.forced_end, node);
  }
  __syncthreads();
}

// Thread 0: the winners down from the root, or the path up from the forced end.
__device__ inline void walk(const AcceptTreeParams& p, AcceptShared& s, int forced) {
  int count = 0;
  for (int node = 0; node != kNoNode && count < p.max_path; node = s.child[node]) {
    s.last = node;
    s.path[count++] = node;
  }
  if (forced > 0) {
    count = 0;
    for (int node = s.forced_end; node > 0; node = s.parent[node]) {
      ++count;
    }
    int at = count++;
    for (int node = s.forced_end; node >= 0; node = s.parent[node]) {
      s.path[at--] = node;
    }
  }
  for (int i = 0; i < count; ++i) {
    s.path_at[s.path[i]] = i;
  }
  s.path_count = count;
}

// Rows of the compressed tokens whose owners are on the path; owners and paths both ascend.
__device__ inline void list_compressed(const AcceptTreeParams& p, AcceptShared& s, int owners) {
  const int row = static_cast<int>(threadIdx.x);
  const bool listed = row < owners && s.path_at[p.owner[row]] >= 0;
  if (listed) {
    int before = 0;
    for (int i = 0; i < row; ++i) {
      before += s.path_at[p.owner[i]] >= 0 ? 1 : 0;
    }
    s.path_compressed[before] = row;
    atomicAdd(&s.compressed_count, 1);
  }
}

// Row i of what the next step and the host read.
__device__ inline void write_path_row(const AcceptTreeParams& p, const AcceptShared& s, int i,
                                      int first_position, StepYield& yield) {
  const int next_token = p.choice[s.last];
  const int count = s.path_count;
  const auto token_after = [&](int at) {
    return at + 1 < count ? p.token[s.path[at + 1]] : next_token;
  };
  if (i < count) {
    p.state->path[i] = s.path[i];
    yield.token[i] = token_after(i);
  }
  if (i < s.compressed_count) {
    p.state->compressed[i] = s.path_compressed[i];
  }
  if (i < p.max_path) {
    const int from = i == 0 ? count - 1 : i - 1;
    p.entry_token[i] = i < count ? token_after(from) : 0;
    p.entry_row[i] = i < count ? s.path[from] : 0;
    p.entry_position[i] = first_position + i + (i > 0 && i < count ? 0 : count);
  }
}

__global__ void __launch_bounds__(kAcceptThreads)
    accept_tree_kernel(const __grid_constant__ AcceptTreeParams p) {
  __shared__ AcceptShared s;
  release_successors();
  wait_for_predecessors();
  const int node = static_cast<int>(threadIdx.x);
  const int count = p.state->tree_nodes;
  const int owners = p.sparse ? p.state->counts.tree_compressed : 0;
  const int first_position = p.state->counts.context_len;
  const int forced =
      p.forced_at != nullptr ? p.forced_at[first_position] : static_cast<int>(p.forced_yield);
  StepYield& yield = p.yield[p.state->steps % kYieldSlots];
  s.parent[node] = node < count ? p.parent[node] : -1;
  s.child[node] = kNoNode;
  s.path_at[node] = -1;
  if (node == 0) {
    s.deepest = 0;
    s.forced_end = kNoNode;
    s.compressed_count = 0;
  }
  __syncthreads();
  if (node > 0 && node < count && p.token[node] == p.choice[s.parent[node]]) {
    atomicMin(&s.child[s.parent[node]], node);
  }
  if (forced > 0) {
    find_forced_end(p, s, node, count, first_position, forced);
  }
  __syncthreads();
  if (node == 0) {
    walk(p, s, forced);
  }
  __syncthreads();
  list_compressed(p, s, owners);
  __syncthreads();
  if (node < kMaxPathNodes) {
    write_path_row(p, s, node, first_position, yield);
  }
  if (node == 0) {
    StepState& state = *p.state;
    const int complete = first_position - static_cast<int>(p.cmp_block);
    yield.count = s.path_count;
    state.path_count = s.path_count;
    state.compressed_count = s.compressed_count;
    state.first_position = first_position;
    state.first_compressed =
        p.sparse && complete >= 0 ? complete / static_cast<int>(p.cmp_stride) + 1 : 0;
    if (p.passes.counts != nullptr) {
      const int newest = first_position + s.path_count;
      p.passes.counts[0].context_len = newest - 1;
      p.passes.position[0] = newest - 1;
      p.passes.position[1] = newest;
      p.passes.token[0] = s.path_count > 1 ? p.token[s.path[s.path_count - 1]] : state.root_token;
      p.passes.token[1] = p.choice[s.last];
    }
    state.root_token = p.choice[s.last];
    state.counts.context_len = first_position + s.path_count;
    state.steps += 1;
  }
}

// Row blockIdx.x of the path, layer blockIdx.y; blockIdx.z: k, v, k_raw, k_cmp, v_cmp.
template <class T, class Word>
__global__ void __launch_bounds__(kCommitThreads)
    commit_path_kernel(const __grid_constant__ CommitPathParams<T> p) {
  release_successors();
  wait_for_predecessors();
  const int i = static_cast<int>(blockIdx.x);
  const int kind = static_cast<int>(blockIdx.z);
  const bool compressed = kind >= 3;
  const StepState& s = *p.state;
  const T* const sources[] = {p.k_tree, p.v_tree, p.k_raw_tree, p.k_cmp_tree, p.v_cmp_tree};
  T* const caches[] = {p.k, p.v, p.k_raw, p.k_cmp, p.v_cmp};
  if (sources[kind] == nullptr || i >= (compressed ? s.compressed_count : s.path_count)) {
    return;
  }
  const std::int64_t from = blockIdx.y * p.tree_rows + (compressed ? s.compressed[i] : s.path[i]);
  const std::int64_t to = blockIdx.y * (compressed ? p.compressed_rows : p.cache_rows) +
                          (compressed ? s.first_compressed : s.first_position) + i;
  const Word* source = reinterpret_cast<const Word*>(sources[kind] + from * p.width);
  Word* cache = reinterpret_cast<Word*>(caches[kind] + to * p.width);
  const int words = static_cast<int>(p.width * static_cast<std::int64_t>(sizeof(T)) /
                                     static_cast<std::int64_t>(sizeof(Word)));
  for (int at = static_cast<int>(threadIdx.x); at < words; at += kCommitThreads) {
    cache[at] = source[at];
  }
}

}  // namespace versieve::kernels
