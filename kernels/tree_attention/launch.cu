#include "kernels/launch.h"

#include <algorithm>
#include <string>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/common/warp_attention.cuh"
#include "kernels/rope_append/turn.cuh"
#include "kernels/tree_attention/together.h"
#include "kernels/tree_attention/traffic.h"
#include "model/launches/tree_attention.h"
#include "model/words/assert.h"
#include "model/words/error.h"

namespace versieve::kernels {
namespace {

constexpr std::int64_t kMaxNodes = 4096;
constexpr std::int64_t kMostPositions = 1 << 30;

// Where a CTA's turned queries lie in shared memory: behind its node lists.
__host__ __device__ constexpr std::size_t queries_at(std::int64_t num_nodes) {
  return (2 * static_cast<std::size_t>(num_nodes + 1) * sizeof(int) + 15) / 16 * 16;
}

// Of a CTA: a query's heads [first, first + count) of KV head g.
struct Part {
  std::int64_t query, g;
  int first, count;
};

// The part's queries to `q` [count, d], its node's key and value behind them, and by the first part
// to the tree's row: a pair of elements a thread, last threads first, while the first ones walk the
// tree.
template <class T>
__device__ inline void take_apart(const TreeAttentionParams<T>& p, const Part& part, int node,
                                  T* q) {
  const int d = static_cast<int>(p.head_dim);
  const int half = d / 2;
  const int heads = static_cast<int>(p.num_heads);
  const int kv_heads = static_cast<int>(p.num_kv_heads);
  const T* const row = p.joint.x + part.query * (heads + 2 * kv_heads) * d;
  const std::int64_t kept = (static_cast<std::int64_t>(node) * kv_heads + part.g) * d;
  for (int i = static_cast<int>(blockDim.x - 1 - threadIdx.x); i < (part.count + 2) * half;
       i += static_cast<int>(blockDim.x)) {
    const int head = i / half;
    const int pair = i - head * half;
    const int beyond = head - part.count;  // 0: the key, 1: the value
    const std::int64_t from = beyond < 0 ? part.g * (heads / kv_heads) + part.first + head
                                         : heads + beyond * kv_heads + part.g;
    const float low = load_f32(row + from * d + pair);
    const float high = load_f32(row + from * d + pair + half);
    const float c = beyond == 1 ? 1.0F : p.joint.cosine[part.query * half + pair];
    const float s = beyond == 1 ? 0.0F : p.joint.sine[part.query * half + pair];
    const auto keep = [&](T* to) {
      store_f32(to + pair, beyond == 1 ? low : turned_low(low, high, c, s));
      store_f32(to + pair + half, beyond == 1 ? high : turned_high(low, high, c, s));
    };
    keep(q + head * d);
    if (beyond >= 0 && part.first == 0) {
      keep((beyond == 0 ? p.joint.k : p.joint.v) + kept);
    }
  }
}

// What a launch takes: one call, or those of several sequences, `queries` places along x for each.
template <class T, int kCalls>
struct TreeCalls {
  TreeAttentionParams<T> call[kCalls];
  int queries;  // of the call that has most

  __device__ __forceinline__ int mine() const {
    return kCalls == 1 ? 0 : static_cast<int>(blockIdx.x) / queries;
  }
  __device__ __forceinline__ int query() const {
    return static_cast<int>(blockIdx.x) - mine() * queries;
  }
};
constexpr int kMostTreeCalls = 64;
static_assert(sizeof(TreeCalls<float, kMostTreeCalls>) <= 32764);  // of a kernel's parameters

// Grid: (query, KV head, part of its heads). Traffic: traffic::tree_attention. Of few queries bound
// by the instructions of a CTA, so heads are shared out where SMs are free; no bit depends on it.
template <class T, int kLanesPerKey, int kTeams, int kHeads, int kCalls>
__global__ void __launch_bounds__(kMaxAttentionThreads)
    tree_attention_kernel(const __grid_constant__ TreeCalls<T, kCalls> calls) {
  extern __shared__ float shared[];
  release_successors();
  const TreeAttentionParams<T>& p = calls.call[calls.mine()];
  if (kCalls > 1 && calls.query() >= p.num_queries) {
    return;
  }
  wait_for_predecessors();
  const int group_heads = static_cast<int>(p.num_heads / p.num_kv_heads);
  Part part{.query = calls.query(), .g = blockIdx.y, .first = 0, .count = group_heads};
  if (gridDim.z > 1) {
    part.first = static_cast<int>(blockIdx.z) * kHeads;
    part.count = min(kHeads, group_heads - part.first);
  }
  const std::int64_t g = part.g;
  const int node =
      p.query_node == nullptr ? static_cast<int>(part.query) : p.query_node[part.query];
  const int t = p.position[node];
  const int context_len =
      p.counts == nullptr ? static_cast<int>(p.context_len) : p.counts->context_len;
  int* parents = reinterpret_cast<int*>(shared);
  int* ancestors = parents + p.num_nodes;
  const std::int64_t head_row = part.query * p.num_heads + g * group_heads + part.first;
  const T* q = p.q + head_row * p.head_dim;
  const T* own_key = nullptr;  // of a node that is taken apart here
  if (p.joint.x != nullptr) {
    T* const turned = reinterpret_cast<T*>(shared + queries_at(p.num_nodes) / sizeof(float));
    take_apart(p, part, node, turned);
    q = turned;
    own_key = turned + part.count * p.head_dim;
  }
  const int tree_tokens =  // that a path can hold
      min(t - context_len + 1, static_cast<int>(p.num_nodes));
  walk_ancestors(p.parent, node, tree_tokens, parents, ancestors);
  const int window = static_cast<int>(p.window);
  const int oldest = window > 0 ? t - window + 1 : 0;
  const int first_position = static_cast<int>(p.first_position);
  const std::int64_t stride = p.num_kv_heads * p.head_dim;
  const std::int64_t column = g * p.head_dim;
  const auto row_at = [&](std::int64_t at) -> FreshKeyRow<T> {
    const int position = static_cast<int>(at);
    if (position < oldest || position > t) {
      return {};
    }
    if (position == t && own_key != nullptr) {
      return {own_key, own_key + p.head_dim};
    }
    const bool committed = position < context_len;
    int row = position;
    if (committed) {
      row = position < first_position ? -1 : row_in_page(p.pages.page, position);
    } else {
      row = t - position < tree_tokens ? ancestors[t - position] : -1;
    }
    const std::int64_t offset = row * stride + column;
    return row < 0 ? FreshKeyRow<T>{}
                   : FreshKeyRow<T>{(committed ? p.k : p.k_tree) + offset,
                                    (committed ? p.v : p.v_tree) + offset};
  };
  WarpAttention<T, kLanesPerKey, kTeams, kHeads> attention(q, part.count,
                                                           static_cast<int>(p.head_dim));
  int chunk = max(0, max(oldest, min(first_position, context_len))) / kDeviceChunk;
  chunk += (attention.team() - chunk) & (kTeams - 1);
  for (; chunk * kDeviceChunk <= t; chunk += kTeams) {
    attention.absorb(chunk * kDeviceChunk, row_at, NoScores{});
  }
  __syncthreads();  // lists and turned rows are no longer read
  T* out = p.out + head_row * p.head_dim;
  attention.merge(shared, part.count, [&](int head, int element, float value, float, float sum) {
    store_f32(out + head * p.head_dim + element, sum > 0.0F ? value / sum : 0.0F);
  });
}

// The same over listed tokens: "positions" are places in the list, then those of the path. Places
// depend on the list, so bits do too: this is for a lossy selection, not for exact verification.
// Grid: (query, KV head).
template <class T, int kLanesPerKey, int kTeams, int kCalls>
__global__ void __launch_bounds__(kMaxAttentionThreads)
    selected_attention_kernel(const __grid_constant__ TreeCalls<T, kCalls> calls) {
  extern __shared__ float shared[];
  release_successors();
  const TreeAttentionParams<T>& p = calls.call[calls.mine()];
  const std::int64_t query = calls.query();
  if (kCalls > 1 && query >= p.num_queries) {
    return;
  }
  wait_for_predecessors();
  const std::int64_t g = blockIdx.y;
  const int node = p.query_node == nullptr ? static_cast<int>(query) : p.query_node[query];
  const int context_len =
      p.counts == nullptr ? static_cast<int>(p.context_len) : p.counts->context_len;
  // Of tree tokens. A padding node of a recorded step may have any position.
  const int path = max(1, min(p.position[node] - context_len + 1, static_cast<int>(p.num_nodes)));
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
    const std::int64_t row =
        committed ? p.pages.row(list[place]) : ancestors[count + path - 1 - place];
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

template <class T>
TreeAttentionCut cut_of(const TreeAttentionParams<T>& p, std::int64_t queries) {
  static_assert(kTileHeads == kTreeTileHeads);
  return p.selected.token != nullptr
             ? TreeAttentionCut{kTileHeads, 1}
             : tree_attention_cut(p.num_heads / p.num_kv_heads, queries * p.num_kv_heads);
}

template <class T>
std::size_t shared_bytes_of(const TreeAttentionParams<T>& p, const TreeAttentionCut& cut) {
  const std::int64_t group_heads = p.num_heads / p.num_kv_heads;
  const std::int64_t taken_apart = p.joint.x == nullptr ? 0 : (group_heads + 2) * p.head_dim;
  return std::max(merge_bytes(group_heads, p.head_dim, attention_teams(group_heads),
                              static_cast<int>(cut.heads)),
                  queries_at(p.num_nodes) + static_cast<std::size_t>(taken_apart) * sizeof(T));
}

template <class T>
DependentGrid grid_of(const TreeAttentionParams<T>& p, const TreeAttentionCut& cut,
                      std::int64_t queries, const LaunchContext& context) {
  const std::int64_t group_heads = p.num_heads / p.num_kv_heads;
  return {.grid = dim3(static_cast<unsigned>(queries), static_cast<unsigned>(p.num_kv_heads),
                       static_cast<unsigned>(cut.parts)),
          .threads =
              static_cast<unsigned>(attention_threads(group_heads) * attention_teams(group_heads)),
          .shared_bytes = shared_bytes_of(p, cut),
          .stream = context.stream};
}

template <class T>
void check_call(const TreeAttentionParams<T>& p) {
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(p.num_queries >= 1 && p.num_nodes >= 1, "there is a query");
  VERSIEVE_ASSERT(p.context_len < kMostPositions && p.window < kMostPositions &&
                      p.first_position < kMostPositions,
                  "positions are counted in 32 bits");
  VERSIEVE_ASSERT(p.joint.x == nullptr || (p.selected.token == nullptr && p.weights == nullptr &&
                                           p.joint.k == p.k_tree && p.joint.v == p.v_tree),
                  "joint rows are kept in the tree that is attended");
  VERSIEVE_ASSERT(p.selected.token == nullptr || p.window == 0, "selected tokens take no window");
  VERSIEVE_ASSERT(
      p.selected.token == nullptr || p.counts == nullptr || p.selected.known_count != nullptr,
      "where the length is on the device, the list's count is");
  refuse(p);
}

template <class T, int kCalls>
void enqueue_selected(const DependentGrid& grid, const TreeCalls<T, kCalls>& calls) {
  const TreeAttentionParams<T>& p = calls.call[0];
  with_lanes_per_key<T>(p.head_dim, [&]<int kLanes>() {
    with_teams(p.num_heads / p.num_kv_heads, [&]<int kTeams>() {
      launch_dependent(grid, selected_attention_kernel<T, kLanes, kTeams, kCalls>, calls);
    });
  });
}

template <class T, int kCalls>
void enqueue(const DependentGrid& grid, const TreeCalls<T, kCalls>& calls, int heads) {
  const TreeAttentionParams<T>& p = calls.call[0];
  if (p.selected.token != nullptr) {
    enqueue_selected(grid, calls);
    return;
  }
  with_lanes_per_key<T>(p.head_dim, [&]<int kLanes>() {
    if (heads == 1) {
      launch_dependent(grid, tree_attention_kernel<T, kLanes, 4, 1, kCalls>, calls);
    } else if (heads == 2) {
      launch_dependent(grid, tree_attention_kernel<T, kLanes, 4, 2, kCalls>, calls);
    } else {
      with_teams(p.num_heads / p.num_kv_heads, [&]<int kTeams>() {
        launch_dependent(grid, tree_attention_kernel<T, kLanes, kTeams, kTileHeads, kCalls>, calls);
      });
    }
  });
}

}  // namespace

template <class T>
void launch_tree_attention(const TreeAttentionParams<T>& p, const LaunchContext& context) {
  check_call(p);
  const LaunchRange range("tree_attention", tree_attention_traffic(p), context.observer);
  const TreeAttentionCut cut = cut_of(p, p.num_queries);
  const DependentGrid grid = grid_of(p, cut, p.num_queries, context);
  const TreeCalls<T, 1> calls{.call = {p}, .queries = static_cast<int>(p.num_queries)};
  enqueue(grid, calls, static_cast<int>(cut.heads));
}

template <class T>
void launch_tree_attention_together(std::span<const TreeAttentionParams<T>> calls,
                                    const LaunchContext& context) {
  for (std::size_t first = 0; first < calls.size(); first += kMostTreeCalls) {
    const std::span<const TreeAttentionParams<T>> some =
        calls.subspan(first, std::min<std::size_t>(kMostTreeCalls, calls.size() - first));
    TreeCalls<T, kMostTreeCalls> together{};
    Traffic traffic;
    std::int64_t queries = 0;
    for (std::size_t i = 0; i < some.size(); ++i) {
      check_call(some[i]);
      VERSIEVE_ASSERT(
          some[i].weights == nullptr && some[i].counts == nullptr &&
              (some[i].selected.token == nullptr) == (some[0].selected.token == nullptr) &&
              (some[i].joint.x == nullptr) == (some[0].joint.x == nullptr),
          "calls are alike");
      together.call[i] = some[i];
      traffic += tree_attention_traffic(some[i]);
      queries = std::max(queries, some[i].num_queries);
    }
    together.queries = static_cast<int>(queries);
    const std::int64_t places = queries * static_cast<std::int64_t>(some.size());
    const TreeAttentionCut cut = cut_of(some[0], places);
    DependentGrid grid = grid_of(some[0], cut, places, context);
    for (const TreeAttentionParams<T>& p : some) {
      grid.shared_bytes = std::max(grid.shared_bytes, shared_bytes_of(p, cut));
    }
    const LaunchRange range("tree_attention", traffic, context.observer);
    enqueue(grid, together, static_cast<int>(cut.heads));
  }
}

template void launch_tree_attention<float>(const TreeAttentionParams<float>&, const LaunchContext&);
template void launch_tree_attention<Bf16>(const TreeAttentionParams<Bf16>&, const LaunchContext&);
template void launch_tree_attention_together<float>(std::span<const TreeAttentionParams<float>>,
                                                    const LaunchContext&);
template void launch_tree_attention_together<Bf16>(std::span<const TreeAttentionParams<Bf16>>,
                                                   const LaunchContext&);

}  // namespace versieve::kernels
