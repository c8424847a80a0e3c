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
std::vector<std::int32_t> path_of(const AttentionWeightsParams<T>& p) {
  std::vector<std::int32_t> path;
  for (std::int32_t i = static_cast<std::int32_t>(p.query_node); i >= 0; i = p.parent[i]) {
    path.push_back(i);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

template <class T>
const T* key_at(const AttentionWeightsParams<T>& p, const std::vector<std::int32_t>& path,
                std::int64_t position, std::int64_t g) {
  const bool committed = position < p.context_len;
  const std::int64_t row = committed ? p.pages.row(position) : path[at(position - p.context_len)];
  return (committed ? p.k : p.k_tree) + (row * p.num_kv_heads + g) * p.head_dim;
}

// scores [H/G, padded]: of one KV head's query heads at every position, scaled.
template <class T>
std::vector<SumOf<T>> scores_of(const AttentionWeightsParams<T>& p,
                                const std::vector<std::int32_t>& path, std::int64_t g,
                                std::int64_t padded_length) {
  using S = SumOf<T>;
  const std::int64_t rows = p.num_heads / p.num_kv_heads;
  const std::int64_t row_size = padded<S>(p.head_dim);
  std::vector<S> q(at(rows * row_size), 0);
  for (std::int64_t h = 0; h < rows; ++h) {
    for (std::int64_t e = 0; e < p.head_dim; ++e) {
      q[at(h * row_size + e)] = to_sum(p.q[(g * rows + h) * p.head_dim + e]);
    }
  }
  const S scale = static_cast<S>(1.0 / std::sqrt(static_cast<double>(p.head_dim)));
  const std::int64_t length = p.context_len + static_cast<std::int64_t>(path.size());
  std::vector<S> scores(at(rows * padded_length));
  std::vector<S> chunk(at(rows * kChunkKeys));
  ChunkKeys<T> keys(p.head_dim);
  for (std::int64_t base = 0; base < length; base += kChunkKeys) {
    keys.clear();
    for (std::int64_t i = base; i < std::min(length, base + kChunkKeys); ++i) {
      const T* key = key_at(p, path, i, g);
      keys.add(static_cast<int>(i - base), key, key);
    }
    chunk_scores(q.data(), rows, keys, scale, chunk.data());
    for (std::int64_t h = 0; h < rows; ++h) {
      std::copy_n(chunk.begin() + h * kChunkKeys, kChunkKeys,
                  scores.begin() + h * padded_length + base);
    }
  }
  return scores;
}

// In place; the sum runs in order of position.
template <class S>
void softmax(S* scores, std::int64_t length) {
  const S most = *std::max_element(scores, scores + length);
  S sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    scores[i] = std::exp(scores[i] - most);
    sum += scores[i];
  }
  for (std::int64_t i = 0; i < length; ++i) {
    scores[i] /= sum;
  }
}

}  // namespace

template <class T>
void attention_weights_cpu(const AttentionWeightsParams<T>& params, int threads) {
  using S = SumOf<T>;
  AttentionWeightsParams<T> p = params;
  p.context_len = p.counts == nullptr ? p.context_len : p.counts->context_len;
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(p.query_node >= 0 && p.query_node < p.num_nodes, "the query belongs to a node");
  const std::vector<std::int32_t> path = path_of(p);
  const std::int64_t rows = p.num_heads / p.num_kv_heads;
  const std::int64_t length = p.context_len + static_cast<std::int64_t>(path.size());
  const std::int64_t padded_length = (length + kChunkKeys - 1) / kChunkKeys * kChunkKeys;
  std::vector<std::vector<S>> weights(at(p.num_kv_heads));  // [G][H/G, padded]
  parallel_for(p.num_kv_heads, threads, [&](std::int64_t g) {
    weights[at(g)] = scores_of(p, path, g, padded_length);
    for (std::int64_t h = 0; h < rows; ++h) {
      softmax(weights[at(g)].data() + h * padded_length, length);
    }
  });
  for (std::int64_t i = 0; i < length; ++i) {
    S sum = 0;
    for (std::int64_t head = 0; head < p.num_heads; ++head) {
      sum += weights[at(head / rows)][at(head % rows * padded_length + i)];
    }
    p.weights[i] = sum / static_cast<S>(p.num_heads);
  }
}

template void attention_weights_cpu<double>(const AttentionWeightsParams<double>&, int);
template void attention_weights_cpu<float>(const AttentionWeightsParams<float>&, int);
template void attention_weights_cpu<Bf16>(const AttentionWeightsParams<Bf16>&, int);

}  // namespace versieve::kernels
