// A thread an element. index_keys: grid (elements of the tokens that are made, layer).
// index_query: one grid over the index query's elements, whose threads also keep the last choice
// and list the newest tokens. Traffic: traffic::index_keys, traffic::index_query. Bound by latency
// but for a full build.
#include <algorithm>

#include "kernels/common/dependent_launch.cuh"
#include "kernels/common/device_element.cuh"
#include "kernels/common/launch_range.h"
#include "kernels/launch.h"
#include "model/launches/index_scores.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(std::int64_t elements) {
  return static_cast<unsigned>((elements + kThreads - 1) / kThreads);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    index_keys_kernel(const __grid_constant__ IndexKeysParams<T> p) {
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
  const std::int64_t row = blockIdx.y * p.k_layer_rows + token;
  p.keys[(blockIdx.y * p.key_layer_rows + token) * p.index.dim + e] =
      g < p.num_kv_heads
          ? p.k[(row * p.num_kv_heads + g) * p.head_dim + index_source(p.index, p.head_dim, e)]
          : T{};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    index_query_kernel(const __grid_constant__ IndexQueryParams<T> p) {
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
void launch_index_keys(const IndexKeysParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.index.pairs >= 1 && 2 * p.index.pairs * p.num_kv_heads <= p.index.dim,
                  "an index key holds pairs of every KV head");
  const std::int64_t tokens = p.length - p.first_token;
  if (tokens <= 0) {
    return;
  }
  const LaunchRange range("index_keys",
                          traffic::index_keys(p.layers, tokens, p.num_kv_heads, p.index, sizeof(T)),
                          context.observer);
  launch_dependent({.grid = dim3(blocks_for(tokens * p.index.dim), static_cast<unsigned>(p.layers)),
                    .threads = kThreads,
                    .stream = context.stream},
                   index_keys_kernel<T>, p);
}

template <class T>
void launch_index_query(const IndexQueryParams<T>& p, const LaunchContext& context) {
  VERSIEVE_ASSERT(p.num_heads >= 1 && p.num_heads <= p.index.heads, "an index head a query head");
  const LaunchRange range("index_query",
                          traffic::index_query(p.num_heads, p.index, p.chosen, p.newest, sizeof(T)),
                          context.observer);
  launch_dependent({.grid = dim3(blocks_for(p.index.heads * p.index.dim)),
                    .threads = kThreads,
                    .stream = context.stream},
                   index_query_kernel<T>, p);
}

template void launch_index_keys<float>(const IndexKeysParams<float>&, const LaunchContext&);
template void launch_index_keys<Bf16>(const IndexKeysParams<Bf16>&, const LaunchContext&);
template void launch_index_query<float>(const IndexQueryParams<float>&, const LaunchContext&);
template void launch_index_query<Bf16>(const IndexQueryParams<Bf16>&, const LaunchContext&);

}  // namespace versieve::kernels
