#include "kernels/cpu.h"

#include <algorithm>

#include "kernels/common/attention_chunk.h"
#include "kernels/common/parallel_for.h"
#include "model/words/assert.h"

namespace versieve::kernels {
namespace {

template <class T>
void rebuild(const BlockKeysParams<T>& p, std::int64_t layer, std::int64_t block) {
  const std::int64_t width = p.num_kv_heads * p.head_dim;
  const std::int64_t first = block * p.key_block;
  const std::int64_t last = std::min(p.length, first + p.key_block);
  const auto key = [&](std::int64_t token) {
    return p.k + (layer * p.k_layer_rows + p.pages.row(token)) * width;
  };
  const T* k = key(first);
  T* least = p.kmin + (layer * p.key_layer_rows + block) * width;
  T* most = p.kmax + (layer * p.key_layer_rows + block) * width;
  std::copy(k, k + width, least);
  std::copy(k, k + width, most);
  for (std::int64_t token = first + 1; token < last; ++token) {
    k = key(token);
    for (std::int64_t e = 0; e < width; ++e) {
      least[e] = to_sum(k[e]) < to_sum(least[e]) ? k[e] : least[e];
      most[e] = to_sum(k[e]) > to_sum(most[e]) ? k[e] : most[e];
    }
  }
}

}  // namespace

template <class T>
void block_keys_cpu(const BlockKeysParams<T>& params, int threads) {
  BlockKeysParams<T> p = params;
  if (p.counts != nullptr) {
    const std::int64_t newest = p.length - p.first_token;
    p.length = p.counts->context_len;
    p.first_token = std::max<std::int64_t>(0, p.length - newest);
  }
  VERSIEVE_ASSERT(p.key_block >= 1, "a block holds a token");
  VERSIEVE_ASSERT(p.first_token >= 0 && p.first_token <= p.length, "tokens exist");
  const std::int64_t first = p.first_token / p.key_block;
  const std::int64_t blocks = key_block_count(p.length, p.key_block) - first;
  if (p.first_token == p.length) {
    return;
  }
  parallel_for(p.layers * blocks, threads,
               [&](std::int64_t i) { rebuild(p, i / blocks, first + i % blocks); });
}

template void block_keys_cpu<double>(const BlockKeysParams<double>&, int);
template void block_keys_cpu<float>(const BlockKeysParams<float>&, int);
template void block_keys_cpu<Bf16>(const BlockKeysParams<Bf16>&, int);

}  // namespace versieve::kernels
