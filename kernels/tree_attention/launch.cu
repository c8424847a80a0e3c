#include "kernels/tree_attention/launch.h"

#include <string>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/warp_attention.cuh"
#include "kernels/rope_append/turn.cuh"
#include "kernels/tree_attention/traffic.h"
#include "model/assert.h"
#include "model/error.h"
#include "model/traffic.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kMaxNodes = 4096;

// Where a CTA's turned queries lie in shared memory: behind its node lists.
__host__ __device__ constexpr std::size_t queries_at(std::int64_t num_nodes) {
  return (2 * static_cast<std::size_t>(num_nodes + 1) * sizeof(int) + 15) / 16 * 16;
}

// The query's heads of KV head g to `q` [H/G, d], its node's key and value to the tree's row: a
// pair of elements a thread, last threads first, while the first ones walk the tree.
template <class T>
__device__ inline void take_apart(const TreeAttentionParams<T>& p, std::int64_t query,
                                  std::int64_t g, int node, T* q) {
  const int d = static_cast<int>(p.head_dim);
  const int half = d / 2;
  const int heads = static_cast<int>(p.num_heads);
  const int kv_heads = static_cast<int>(p.num_kv_heads);
  const int group_heads = heads / kv_heads;
  const T* const row = p.joint.x + query * (heads + 2 * kv_heads) * d;
  const std::int64_t kept = (static_cast<std::int64_t>(node) * kv_heads + g) * d;
  for (int i = static_cast<int>(blockDim.x - 1 - threadIdx.x); i < (group_heads + 2) * half;
       i += static_cast<int>(blockDim.x)) {
    const int head = i / half;
    const int pair = i - head * half;
    const int beyond = head - group_heads;  // 0: the key, 1: the value
    const std::int64_t from = beyond < 0 ? g * group_heads + head : heads + beyond * kv_heads + g;
    const float low = load_f32(row + from * d + pair);
    const float high = load_f32(row + from * d + pair + half);
    const float c = beyond == 1 ? 1.0F : p.joint.cosine[query * half + pair];
    const float s = beyond == 1 ? 0.0F : p.joint.sine[query * half + pair];
    T* const to = beyond < 0 ? q + head * d : (beyond == 0 ? p.joint.k : p.joint.v) + kept;
    store_f32(to + pair, beyond == 1 ? low : turned_low(low, high, c, s));
    store_f32(to + pair + half, beyond == 1 ? high : turned_high(low, high, c, s));
  }
}

// Grid: (query, KV head). Traffic: traffic::tree_attention. Bound by memory.
template <class T, int kLanesPerKey, int kTeams>
__global__ void __launch_bounds__(kMaxAttentionThreads)
    tree_attention_kernel(const __grid_constant__ TreeAttentionParams<T> p) {
  extern __shared__ float shared[];
  release_successors();
  wait_for_predecessors();
  const std::int64_t query = blockIdx.x;
  const std::int64_t g = blockIdx.y;
  const int node = p.query_node == nullptr ? static_cast<int>(query) : p.query_node[query];
  const std::int64_t t = p.position[node];
  const std::int64_t context_len = p.counts == nullptr ? p.context_len : p.counts->context_len;
  const int group_heads = static_cast<int>(p.num_heads / p.num_kv_heads);
  int* parents = reinterpret_cast<int*>(shared);
  int* ancestors = parents + p.num_nodes;
  const std::int64_t head_row = query * p.num_heads + g * group_heads;
  const T* q = p.q + head_row * p.head_dim;
  if (p.joint.x != nullptr) {
    T* const turned = reinterpret_cast<T*>(shared + queries_at(p.num_nodes) / sizeof(float));
    take_apart(p, query, g, node, turned);
    q = turned;
  }
  const int tree_tokens =
      static_cast<int>(min(t - context_len + 1, p.num_nodes));  // that a path can hold
  walk_ancestors(p.parent, node, tree_tokens, parents, ancestors);
  const std::int64_t oldest = p.window > 0 ? t - p.window + 1 : 0;
  const auto row_at = [&](std::int64_t position) -> FreshKeyRow<T> {
    if (position < oldest || position > t) {
      return {};
    }
    const bool committed = position < context_len;
    std::int64_t row = position;
    if (committed) {
      row = position < p.first_position ? -1 : position;
    } else {
      row = t - position < tree_tokens ? ancestors[t - position] : -1;
    }
    const std::int64_t offset = (row * p.num_kv_heads + g) * p.head_dim;
    return row < 0 ? FreshKeyRow<T>{}
                   : FreshKeyRow<T>{(committed ? p.k : p.k_tree) + offset,
                                    (committed ? p.v : p.v_tree) + offset};
  };
  WarpAttention<T, kLanesPerKey, kTeams> attention(q, group_heads, static_cast<int>(p.head_dim));
  const std::int64_t first = max(oldest, min(p.first_position, context_len));
  std::int64_t chunk = max(std::int64_t{0}, first) / kDeviceChunk;
  chunk += (attention.team() - chunk) & (kTeams - 1);
  for (; chunk * kDeviceChunk <= t; chunk += kTeams) {
    attention.absorb(chunk * kDeviceChunk, row_at, NoScores{});
  }
  __syncthreads();  // `ancestors` is no longer read
  T* out = p.out + head_row * p.head_dim;
  attention.merge(shared, group_heads, [&](int head, int element, float value, float, float sum) {
    store_f32(out + head * p.head_dim + element, sum > 0.0F ? value / sum : 0.0F);
  });
}

// The same over listed tokens: "positions" are places in the list, then those of the path. Places
// depend on the list, so bits do too: this is for a lossy selection, not for exact verification.
template <class T, int kLanesPerKey, int kTeams>
__global__ void __launch_bounds__(kMaxAttentionThreads)
    selected_attention_kernel(const __grid_constant__ TreeAttentionParams<T> p) {
  extern __shared__ float shared[];
  const std::int64_t query = blockIdx.x;
  const std::int64_t g = blockIdx.y;
  const int node = p.query_node == nullptr ? static_cast<int>(query) : p.query_node[query];
  const int path = static_cast<int>(p.position[node] - p.context_len + 1);  // of tree tokens
  const int group_heads = static_cast<int>(p.num_heads / p.num_kv_heads);
  int* parents = reinterpret_cast<int*>(shared);
  int* ancestors = parents + p.num_nodes;
  walk_ancestors(p.parent, node, path, parents, ancestors);
  const std::int64_t count =
      p.selected.known_count == nullptr ? p.selected.count : *p.selected.known_count;
  const std::int32_t* list = p.selected.token + (p.selected.per_kv_head ? g * p.selected.count : 0);
  const auto row_at = [&](std::int64_t place) -> KeyRow<T> {
    if (place >= count + path) {
      return {};
    }
    const bool committed = place < count;
    const std::int64_t row = committed ? list[place] : ancestors[count + path - 1 - place];
    const std::int64_t offset = (row * p.num_kv_heads + g) * p.head_dim;
    return {(committed ? p.k : p.k_tree) + offset, (committed ? p.v : p.v_tree) + offset};
  };
  const std::int64_t head_row = query * p.num_heads + g * group_heads;
  WarpAttention<T, kLanesPerKey, kTeams> attention(p.q + head_row * p.head_dim, group_heads,
                                                   static_cast<int>(p.head_dim));
  for (std::int64_t base = attention.team() * kDeviceChunk; base < count + path;
       base += kTeams * kDeviceChunk) {
    attention.absorb(base, row_at, NoScores{});
  }
  __syncthreads();  // `ancestors` is no longer read
  T* out = p.out + head_row * p.head_dim;
  attention.merge(shared, group_heads, [&](int head, int element, float value, float, float sum) {
    store_f32(out + head * p.head_dim + element, sum > 0.0F ? value / sum : 0.0F);
  });
}

template <class T>
void refuse(const TreeAttentionParams<T>& p) {
  if (p.head_dim % 16 != 0 || p.head_dim > kMaxHeadDim) {
    throw Error(ExitCode::kAnswerNo,
                "the CUDA kernels take a head size that is a multiple of 16 up to 128, not " +
                    std::to_string(p.head_dim));
  }
  if (p.num_heads / p.num_kv_heads > kMaxGroupHeads || p.num_nodes > kMaxNodes) {
    throw Error(ExitCode::kAnswerNo,
                "the CUDA kernels take at most 16 query heads per KV head and 4096 nodes");
  }
}

}  // namespace

template <class T>
void launch_tree_attention(const TreeAttentionParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(p.num_queries >= 1 && p.num_nodes >= 1, "there is a query");
  VERSIEVE_ASSERT(p.selected.token == nullptr || (p.window == 0 && p.counts == nullptr),
                  "selected tokens take no window and no counts");
  VERSIEVE_ASSERT(p.joint.x == nullptr || (p.selected.token == nullptr && p.weights == nullptr &&
                                           p.joint.k == p.k_tree && p.joint.v == p.v_tree),
                  "joint rows are kept in the tree that is attended");
  refuse(p);
  const std::int64_t group_heads = p.num_heads / p.num_kv_heads;
  const dim3 grid(static_cast<unsigned>(p.num_queries), static_cast<unsigned>(p.num_kv_heads));
  const int teams = attention_teams(group_heads);
  const std::size_t query_bytes =
      p.joint.x == nullptr ? 0 : static_cast<std::size_t>(group_heads * p.head_dim) * sizeof(T);
  const std::size_t shared_bytes =
      std::max(merge_bytes(group_heads, p.head_dim, teams), queries_at(p.num_nodes) + query_bytes);
  const LaunchRange range("tree_attention", tree_attention_traffic(p), context.observer);
  const DependentGrid launch{
      .grid = grid,
      .threads = static_cast<unsigned>(attention_threads(group_heads) * teams),
      .shared_bytes = shared_bytes,
      .stream = context.stream};
  with_lanes_per_key<T>(p.head_dim, [&]<int kLanes>() {
    with_teams(group_heads, [&]<int kTeams>() {
      if (p.selected.token != nullptr) {
        selected_attention_kernel<T, kLanes, kTeams>
            <<<grid, launch.threads, shared_bytes, context.stream>>>(p);
        check(cudaGetLastError());
      } else {
        launch_dependent(launch, tree_attention_kernel<T, kLanes, kTeams>, p);
      }
    });
  });
}

template void launch_tree_attention<float>(const TreeAttentionParams<float>&, const LaunchContext&);
template void launch_tree_attention<Bf16>(const TreeAttentionParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
