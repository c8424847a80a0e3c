#include "kernels/cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/attention_chunk.h"
#include "kernels/common/parallel_for.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// The node's ancestors, eldest first, and itself.
template <class T>
std::vector<std::int32_t> path_of(const TreeAttentionParams<T>& p, std::int64_t node) {
  std::vector<std::int32_t> path;
  for (std::int32_t i = static_cast<std::int32_t>(node); i >= 0; i = p.parent[i]) {
    path.push_back(i);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

template <class T>
std::vector<SumOf<T>> padded_queries(const TreeAttentionParams<T>& p, std::int64_t query,
                                     std::int64_t g) {
  const std::int64_t rows = p.num_heads / p.num_kv_heads;
  const std::int64_t row_size = padded<SumOf<T>>(p.head_dim);
  std::vector<SumOf<T>> q(at(rows * row_size), 0);
  for (std::int64_t h = 0; h < rows; ++h) {
    const T* from = p.q + (query * p.num_heads + g * rows + h) * p.head_dim;
    for (std::int64_t e = 0; e < p.head_dim; ++e) {
      q[at(h * row_size + e)] = to_sum(from[e]);
    }
  }
  return q;
}

template <class T>
void stream_keys(const TreeAttentionParams<T>& p, std::int64_t node, std::int64_t g,
                 KeyStream<T>& stream) {
  const std::int64_t t = p.position[node];
  const std::int64_t oldest = p.window > 0 ? t - p.window + 1 : 0;
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  const auto add = [&](std::int64_t position) {
    const std::int64_t offset = p.pages.row(position) * width + g * p.head_dim;
    stream.add(position, p.k + offset, p.v + offset);
  };
  if (p.selected.token == nullptr) {
    for (std::int64_t position = std::max(oldest, p.first_position); position < p.context_len;
         ++position) {
      add(position);
    }
  } else {
    const std::int64_t list = p.selected.per_kv_head ? g * p.selected.count : 0;
    const std::int64_t count =
        p.selected.known_count == nullptr ? p.selected.count : *p.selected.known_count;
    for (std::int64_t i = 0; i < count; ++i) {
      add(p.selected.token[list + i]);
    }
  }
  for (const std::int32_t ancestor : path_of(p, node)) {
    if (p.position[ancestor] >= oldest) {
      const std::int64_t offset = ancestor * width + g * p.head_dim;
      stream.add(p.position[ancestor], p.k_tree + offset, p.v_tree + offset);
    }
  }
  stream.finish();
}

template <class T>
void attend(const TreeAttentionParams<T>& p, std::int64_t query, std::int64_t g) {
  using S = SumOf<T>;
  const std::int64_t node = p.query_node == nullptr ? query : p.query_node[query];
  VERSIEVE_ASSERT(node >= 0 && node < p.num_nodes, "a query belongs to a node");
  const std::int64_t rows = p.num_heads / p.num_kv_heads;
  const S scale = static_cast<S>(1.0 / std::sqrt(static_cast<double>(p.head_dim)));
  const std::vector<S> q = padded_queries(p, query, g);
  OnlineAttention<T> attention(q.data(), rows, p.head_dim, scale);
  ChunkKeys<T> keys(p.head_dim);
  KeyStream<T> stream(attention, keys);
  stream_keys(p, node, g, stream);
  for (std::int64_t h = 0; h < rows; ++h) {
    T* out = p.out + (query * p.num_heads + g * rows + h) * p.head_dim;
    for (std::int64_t e = 0; e < p.head_dim; ++e) {
      out[e] = from_sum<T>(attention.result(h, e));
    }
  }
}

}  // namespace

template <class T>
void tree_attention_cpu(const TreeAttentionParams<T>& params, int threads) {
  TreeAttentionParams<T> p = params;
  p.context_len = p.counts == nullptr ? p.context_len : p.counts->context_len;
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(p.selected.token == nullptr || p.window == 0, "selected tokens take no window");
  VERSIEVE_ASSERT(p.first_position >= 0 && p.window >= 0, "positions are not negative");
  parallel_for(p.num_kv_heads * p.num_queries, threads,
               [&](std::int64_t i) { attend(p, i % p.num_queries, i / p.num_queries); });
}

template void tree_attention_cpu<double>(const TreeAttentionParams<double>&, int);
template void tree_attention_cpu<float>(const TreeAttentionParams<float>&, int);
template void tree_attention_cpu<Bf16>(const TreeAttentionParams<Bf16>&, int);

}  // namespace versieve::kernels
