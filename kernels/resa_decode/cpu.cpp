#include "kernels/cpu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/common/attention_chunk.h"
#include "kernels/common/parallel_for.h"
#include "kernels/topk/order_key.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// The unscaled mean query of KV head g's group.
template <class T>
std::vector<SumOf<T>> mean_query(const ResaDecodeParams<T>& p, std::int64_t g) {
  const std::int64_t rows = p.num_heads / p.num_kv_heads;
  std::vector<SumOf<T>> mean(at(p.head_dim), 0);
  for (std::int64_t h = 0; h < rows; ++h) {
    const T* q = p.q + (g * rows + h) * p.head_dim;
    for (std::int64_t e = 0; e < p.head_dim; ++e) {
      mean[at(e)] += to_sum(q[e]);
    }
  }
  for (SumOf<T>& x : mean) {
    x /= static_cast<SumOf<T>>(rows);
  }
  return mean;
}

// Rectified Sparse Attention, equation 3.
template <class T>
SumOf<T> block_score(const ResaDecodeParams<T>& p, const std::vector<SumOf<T>>& mean,
                     std::int64_t block, std::int64_t g) {
  using S = SumOf<T>;
  const std::int64_t row = (block * p.num_kv_heads + g) * p.head_dim;
  S score = 0;
  for (std::int64_t e = 0; e < p.head_dim; ++e) {
    const S q = mean[at(e)];
    score += std::max(q * to_sum(p.kmax[row + e]), q * to_sum(p.kmin[row + e]));
  }
  return score;
}

// The newest blocks, then the best of the others, the lower block first among equals; ascending.
template <class T>
std::vector<std::int32_t> chosen_blocks(const ResaDecodeParams<T>& p, std::int64_t g) {
  using S = SumOf<T>;
  using Bits = typename OrderBits<S>::Bits;
  const std::int64_t blocks = p.block_count();
  const std::int64_t forced = std::min(blocks, p.selection.n_local);
  const std::int64_t free = blocks - forced;
  const std::vector<S> mean = mean_query(p, g);
  std::vector<Bits> rank(at(free));
  for (std::int64_t block = 0; block < free; ++block) {
    rank[at(block)] = order_key<S>(std::bit_cast<Bits>(block_score(p, mean, block, g)));
  }
  std::vector<std::int32_t> chosen(at(free));
  std::iota(chosen.begin(), chosen.end(), 0);
  const std::int64_t kept = p.active_count() - forced;
  std::nth_element(chosen.begin(), chosen.begin() + kept, chosen.end(),
                   [&](std::int32_t a, std::int32_t b) {
                     return rank[at(a)] != rank[at(b)] ? rank[at(a)] > rank[at(b)] : a < b;
                   });
  chosen.resize(at(kept));
  for (std::int64_t block = free; block < blocks; ++block) {
    chosen.push_back(static_cast<std::int32_t>(block));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

template <class T>
void stream_blocks(const ResaDecodeParams<T>& p, const std::vector<std::int32_t>& blocks,
                   std::int64_t g, KeyStream<T>& stream) {
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  for (const std::int32_t block : blocks) {
    const std::int64_t first = block * p.selection.key_block;
    const std::int64_t end = std::min(p.length(), first + p.selection.key_block);
    for (std::int64_t position = first; position < end; ++position) {
      const bool committed = position < p.context_len;
      const std::int64_t row = (committed ? p.pages.row(position) * width : 0) + g * p.head_dim;
      stream.add(position, (committed ? p.k : p.k_new) + row, (committed ? p.v : p.v_new) + row);
    }
  }
  stream.finish();
}

template <class T>
void attend(const ResaDecodeParams<T>& p, std::int64_t g) {
  using S = SumOf<T>;
  const std::int64_t rows = p.num_heads / p.num_kv_heads;
  const std::int64_t row_size = padded<S>(p.head_dim);
  const std::vector<std::int32_t> blocks = chosen_blocks(p, g);
  std::copy(blocks.begin(), blocks.end(), p.indices + g * p.active_count());
  std::vector<S> q(at(rows * row_size), 0);
  for (std::int64_t i = 0; i < rows * p.head_dim; ++i) {
    q[at(i / p.head_dim * row_size + i % p.head_dim)] = to_sum(p.q[g * rows * p.head_dim + i]);
  }
  const S scale = static_cast<S>(1.0 / std::sqrt(static_cast<double>(p.head_dim)));
  OnlineAttention<T> attention(q.data(), rows, p.head_dim, scale);
  ChunkKeys<T> keys(p.head_dim);
  KeyStream<T> stream(attention, keys);
  stream_blocks(p, blocks, g, stream);
  for (std::int64_t i = 0; i < rows * p.head_dim; ++i) {
    p.out[g * rows * p.head_dim + i] =
        from_sum<T>(attention.result(i / p.head_dim, i % p.head_dim));
  }
}

}  // namespace

template <class T>
void resa_decode_cpu(const ResaDecodeParams<T>& params, int threads) {
  ResaDecodeParams<T> p = params;
  p.context_len = p.counts == nullptr ? p.context_len : p.counts->context_len;
  VERSIEVE_ASSERT(p.num_kv_heads >= 1 && p.num_heads % p.num_kv_heads == 0, "G divides H");
  VERSIEVE_ASSERT(p.length() >= 1 && p.selection.key_block >= 1, "a token is visible");
  parallel_for(p.num_kv_heads, threads, [&](std::int64_t g) { attend(p, g); });
}

template void resa_decode_cpu<double>(const ResaDecodeParams<double>&, int);
template void resa_decode_cpu<float>(const ResaDecodeParams<float>&, int);
template void resa_decode_cpu<Bf16>(const ResaDecodeParams<Bf16>&, int);

}  // namespace versieve::kernels
