// A thread an element. index_keys: grid (elements of the tokens that are made, layer, call).
// index_query: grid (elements of the index query, call), whose threads also keep the last choice
// and list the newest tokens. Traffic: traffic::index_keys, traffic::index_query. Bound by latency
// but for a full build.
#include <algorithm>
#include <type_traits>

#include "kernels/common/call_list.cuh"
#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/index_keys/together.h"
#include "kernels/launch.h"
#include "model/launches/index_scores.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(std::int64_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

template <class T, int kCalls>
__global__ void __launch_bounds__(kThreads)
    index_keys_kernel(const __grid_constant__ CallList<IndexKeysParams<T>, kCalls> calls) {
  const IndexKeysParams<T>& p = calls.at(blockIdx.z);
  release_successors();
  wait_for_predecessors();
  const std::int64_t length = p.counts == nullptr ? p.length : p.counts->context_len;
  const std::int64_t first_token = p.counts == nullptr
                                       ? p.first_token
                                       : max(std::int64_t{0}, length - (p.length - p.first_token));
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t token = first_token + i / p.index.dim;
  if (token >= length) {
    return;
  }
  const std::int64_t e = i % p.index.dim;
  const std::int64_t g = index_slot(p.index, e);
  const std::int64_t row = blockIdx.y * p.k_layer_rows + p.pages.row(token);
  p.keys[(blockIdx.y * p.key_layer_rows + token) * p.index.dim + e] =
      g < p.num_kv_heads
          ? p.k[(row * p.num_kv_heads + g) * p.head_dim + index_source(p.index, p.head_dim, e)]
          : T{};
}

template <class T, int kCalls>
__global__ void __launch_bounds__(kThreads)
    index_query_kernel(const __grid_constant__ CallList<IndexQueryParams<T>, kCalls> calls) {
  const IndexQueryParams<T>& p = calls.at(blockIdx.y);
  release_successors();
  wait_for_predecessors();
  const std::int64_t context_len = p.counts == nullptr ? p.context_len : p.counts->context_len;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  if (first < p.index.heads * p.index.dim) {
    const std::int64_t h = first / p.index.dim;
    const std::int64_t e = first % p.index.dim;
    const bool own =
        h < p.num_heads && index_slot(p.index, e) == h / (p.num_heads / p.num_kv_heads);
    p.index_q[first] = own ? p.q[h * p.head_dim + index_source(p.index, p.head_dim, e)] : T{};
  }
  for (std::int64_t i = first; i < p.chosen; i += stride) {
    p.hint[i] = p.list[i];
  }
  const std::int64_t newest = first_newest(context_len, p.chosen, p.newest);
  for (std::int64_t i = first; i < p.newest; i += stride) {
    p.list[p.chosen + i] = static_cast<std::int32_t>(newest + i);
  }
  if (first == 0) {
    *p.count = static_cast<std::int32_t>(min(context_len, p.chosen + p.newest));
  }
}

}  // namespace

template <class T>
void launch_index_keys_together(std::span<const IndexKeysParams<T>> calls,
                                const LaunchContext& context) {
  launch_lists(calls, [&](const auto& list, std::span<const IndexKeysParams<T>> some) {
    Traffic traffic;
    std::int64_t most = 0;  // tokens
    for (const IndexKeysParams<T>& p : some) {
      VERSIEVE_ASSERT(p.index.pairs >= 1 && 2 * p.index.pairs * p.num_kv_heads <= p.index.dim,
                      "an index key holds pairs of every KV head");
      VERSIEVE_ASSERT(p.layers == some[0].layers && p.index.dim == some[0].index.dim,
                      "calls are of one model");
      const std::int64_t tokens = std::max<std::int64_t>(0, p.length - p.first_token);
      most = std::max(most, tokens);
      traffic += traffic::index_keys(p.layers, tokens, p.num_kv_heads, p.index, sizeof(T));
    }
    if (most == 0) {
      return;
    }
    const LaunchRange range("index_keys", traffic, context.observer);
    launch_dependent(
        {.grid = dim3(blocks_for(most * some[0].index.dim), static_cast<unsigned>(some[0].layers),
                      static_cast<unsigned>(some.size())),
         .threads = kThreads,
         .stream = context.stream},
        index_keys_kernel<T, std::decay_t<decltype(list)>::kCount>, list);
  });
}

template <class T>
void launch_index_query_together(std::span<const IndexQueryParams<T>> calls,
                                 const LaunchContext& context) {
  launch_lists(calls, [&](const auto& list, std::span<const IndexQueryParams<T>> some) {
    Traffic traffic;
    for (const IndexQueryParams<T>& p : some) {
      VERSIEVE_ASSERT(p.num_heads >= 1 && p.num_heads <= p.index.heads,
                      "an index head a query head");
      VERSIEVE_ASSERT(p.index.heads == some[0].index.heads && p.index.dim == some[0].index.dim,
                      "calls are of one model");
      traffic += traffic::index_query(p.num_heads, p.index, p.chosen, p.newest, sizeof(T));
    }
    const LaunchRange range("index_query", traffic, context.observer);
    launch_dependent({.grid = dim3(blocks_for(some[0].index.heads * some[0].index.dim),
                                   static_cast<unsigned>(some.size())),
                      .threads = kThreads,
                      .stream = context.stream},
                     index_query_kernel<T, std::decay_t<decltype(list)>::kCount>, list);
  });
}

template <class T>
void launch_index_keys(const IndexKeysParams<T>& p, const LaunchContext& context) {
  launch_index_keys_together(std::span(&p, 1), context);
}
template <class T>
void launch_index_query(const IndexQueryParams<T>& p, const LaunchContext& context) {
  launch_index_query_together(std::span(&p, 1), context);
}

#define VERSIEVE_INSTANTIATE(T)                                                       \
  template void launch_index_keys(const IndexKeysParams<T>&, const LaunchContext&);   \
  template void launch_index_query(const IndexQueryParams<T>&, const LaunchContext&); \
  template void launch_index_keys_together(std::span<const IndexKeysParams<T>>,       \
                                           const LaunchContext&);                     \
  template void launch_index_query_together(std::span<const IndexQueryParams<T>>,     \
                                            const LaunchContext&);
VERSIEVE_INSTANTIATE(float)
VERSIEVE_INSTANTIATE(Bf16)
#undef VERSIEVE_INSTANTIATE

}  // namespace versieve::kernels
