#include "kernels/cpu.h"

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

// Below this many rows a thread's share is less than waking it costs.
constexpr std::int64_t kRowsWorthThreads = 16;

// Rotate-half pairs (i, i + d/2), angles in double, sine and cosine rounded once.
template <class T, class S>
void rotate(const CompressParams<T>& p, std::int64_t position, S* x) {
  const std::int64_t half = p.head_dim / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const double frequency =
        p.frequency != nullptr
            ? p.frequency[i]
            : std::pow(p.theta, -2.0 * static_cast<double>(i) / static_cast<double>(p.head_dim));
    const double angle = static_cast<double>(position) * frequency;
    const S cosine = static_cast<S>(std::cos(angle) * p.scale);
    const S sine = static_cast<S>(std::sin(angle) * p.scale);
    const S low = x[i];
    const S high = x[i + half];
    x[i] = low * cosine - high * sine;
    x[i + half] = high * cosine + low * sine;
  }
}

template <class T>
void compress_row(const CompressParams<T>& p, std::int64_t row, std::int64_t g) {
  using S = SumOf<T>;
  const std::int64_t d = p.head_dim;
  std::vector<S> key(at(d), 0);
  std::vector<S> value(at(d), 0);
  for (std::int64_t j = 0; j < p.cmp_block; ++j) {
    const std::int64_t source = p.source[row * p.cmp_block + j];
    const std::int64_t token = source >= 0 ? source : -1 - source;
    const T* k = (source >= 0 ? p.k_cache : p.k_tree) + (token * p.num_kv_heads + g) * d;
    const T* v = (source >= 0 ? p.v_cache : p.v_tree) + (token * p.num_kv_heads + g) * d;
    const S key_weight = to_sum(p.compress_key[g * p.cmp_block + j]);
    const S value_weight = to_sum(p.compress_value[g * p.cmp_block + j]);
    const T* pe = p.intra_block_pe;
    for (std::int64_t e = 0; e < d; ++e) {
      const S shift = pe == nullptr ? S{0} : to_sum(pe[(g * p.cmp_block + j) * d + e]);
      key[at(e)] = std::fma(key_weight, to_sum(k[e]) + shift, key[at(e)]);
      value[at(e)] = std::fma(value_weight, to_sum(v[e]), value[at(e)]);
    }
  }
  if (p.rotate) {
    rotate(p, p.block[row] * p.cmp_stride, key.data());
  }
  for (std::int64_t e = 0; e < d; ++e) {
    p.k_cmp[(row * p.num_kv_heads + g) * d + e] = from_sum<T>(key[at(e)]);
    p.v_cmp[(row * p.num_kv_heads + g) * d + e] = from_sum<T>(value[at(e)]);
  }
}

}  // namespace

template <class T>
void compress_cpu(const CompressParams<T>& params, int threads) {
  CompressParams<T> p = params;
  p.rows = p.counts == nullptr ? p.rows : p.counts->tree_compressed;
  VERSIEVE_ASSERT(p.cmp_block >= 1 && p.num_kv_heads >= 1, "phi pools at least one token");
  VERSIEVE_ASSERT(!p.rotate || p.head_dim % 2 == 0, "rotary pairs need an even head size");
  const std::int64_t count = p.rows * p.num_kv_heads;
  parallel_for(count, count < kRowsWorthThreads ? 1 : threads,
               [&](std::int64_t i) { compress_row(p, i / p.num_kv_heads, i % p.num_kv_heads); });
}

template void compress_cpu<double>(const CompressParams<double>&, int);
template void compress_cpu<float>(const CompressParams<float>&, int);
template void compress_cpu<Bf16>(const CompressParams<Bf16>&, int);

}  // namespace versieve::kernels
