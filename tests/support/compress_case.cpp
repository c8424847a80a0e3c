#include "tests/support/compress_case.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "tests/support/rounding.h"

namespace versieve::testing {

std::string CompressCase::text() const {
  std::ostringstream text;
  text << "G=" << kv_heads << " d=" << head_dim << " l=" << cmp_block << " s=" << cmp_stride
       << " rows=" << block.size() << " rotate=" << rotate << " pe=" << !intra_block_pe.empty();
  return text.str();
}

CompressCase random_compress_case(std::mt19937_64& rng, bool cuda) {
  CompressCase c;
  c.kv_heads = pick(rng, 1, 4);
  c.head_dim = cuda ? 16 * pick(rng, 1, 8) : 2 * pick(rng, 1, 64);
  c.cmp_stride = pick(rng, 1, 16);
  c.cmp_block = c.cmp_stride * pick(rng, 1, 3);
  c.cache_tokens = pick(rng, 1, 200);
  c.tree_tokens = pick(rng, 1, 60);
  c.rotate = pick(rng, 0, 2) != 0;
  const std::int64_t rows = pick(rng, 1, 30);
  for (std::int64_t i = 0; i < rows; ++i) {
    c.block.push_back(static_cast<std::int32_t>(pick(rng, 0, 4000)));
    for (std::int64_t j = 0; j < c.cmp_block; ++j) {
      c.source.push_back(static_cast<std::int32_t>(pick(rng, 0, 1) == 0
                                                       ? pick(rng, 0, c.cache_tokens - 1)
                                                       : -1 - pick(rng, 0, c.tree_tokens - 1)));
    }
  }
  const std::int64_t width = c.kv_heads * c.head_dim;
  c.k_cache = random_rows(rng, c.cache_tokens * width);
  c.v_cache = random_rows(rng, c.cache_tokens * width);
  c.k_tree = random_rows(rng, c.tree_tokens * width);
  c.v_tree = random_rows(rng, c.tree_tokens * width);
  c.compress_key = random_rows(rng, c.kv_heads * c.cmp_block);
  c.compress_value = random_rows(rng, c.kv_heads * c.cmp_block);
  if (pick(rng, 0, 1) == 0) {
    c.intra_block_pe = random_rows(rng, c.kv_heads * c.cmp_block * c.head_dim);
  }
  return c;
}

template <class T>
CompressResult plain_compress(const CompressCase& c) {
  const std::vector<double> k_cache = rounded_rows<T>(c.k_cache);
  const std::vector<double> v_cache = rounded_rows<T>(c.v_cache);
  const std::vector<double> k_tree = rounded_rows<T>(c.k_tree);
  const std::vector<double> v_tree = rounded_rows<T>(c.v_tree);
  const std::vector<double> key_weight = rounded_rows<T>(c.compress_key);
  const std::vector<double> value_weight = rounded_rows<T>(c.compress_value);
  const std::vector<double> pe = rounded_rows<T>(c.intra_block_pe);
  CompressResult r;
  for (std::size_t row = 0; row < c.block.size(); ++row) {
    for (std::int64_t g = 0; g < c.kv_heads; ++g) {
      std::vector<double> key(at(c.head_dim), 0.0);
      std::vector<double> value(at(c.head_dim), 0.0);
      for (std::int64_t e = 0; e < c.head_dim; ++e) {
        for (std::int64_t j = 0; j < c.cmp_block; ++j) {
          const std::int64_t from = c.source[row * at(c.cmp_block) + at(j)];
          const std::int64_t token = from >= 0 ? from : -1 - from;
          const std::size_t place = at((token * c.kv_heads + g) * c.head_dim + e);
          const std::size_t weight = at(g * c.cmp_block + j);
          const double shift = pe.empty() ? 0.0 : pe[weight * at(c.head_dim) + at(e)];
          key[at(e)] += key_weight[weight] * ((from >= 0 ? k_cache : k_tree)[place] + shift);
          value[at(e)] += value_weight[weight] * (from >= 0 ? v_cache : v_tree)[place];
        }
      }
      const std::int64_t half = c.head_dim / 2;
      const std::vector<double> plain = key;
      for (std::int64_t e = 0; e < half && c.rotate; ++e) {
        const double angle =
            static_cast<double>(c.block[row] * c.cmp_stride) *
            std::pow(10000.0, -2.0 * static_cast<double>(e) / static_cast<double>(c.head_dim));
        key[at(e)] = plain[at(e)] * std::cos(angle) - plain[at(e + half)] * std::sin(angle);
        key[at(e + half)] = plain[at(e + half)] * std::cos(angle) + plain[at(e)] * std::sin(angle);
      }
      r.k_cmp.insert(r.k_cmp.end(), key.begin(), key.end());
      r.v_cmp.insert(r.v_cmp.end(), value.begin(), value.end());
    }
  }
  return r;
}
template CompressResult plain_compress<double>(const CompressCase&);
template CompressResult plain_compress<float>(const CompressCase&);
template CompressResult plain_compress<Bf16>(const CompressCase&);

template <class T>
CompressBuffers<T>::CompressBuffers(const CompressCase& c)
    : source(c),
      k_cache(narrowed_rows<T>(c.k_cache)),
      v_cache(narrowed_rows<T>(c.v_cache)),
      k_tree(narrowed_rows<T>(c.k_tree)),
      v_tree(narrowed_rows<T>(c.v_tree)),
      compress_key(narrowed_rows<T>(c.compress_key)),
      compress_value(narrowed_rows<T>(c.compress_value)),
      intra_block_pe(narrowed_rows<T>(c.intra_block_pe)) {
  const T poison = narrowed<T>(std::numeric_limits<double>::quiet_NaN());
  k_cmp.assign(at(static_cast<std::int64_t>(c.block.size()) * c.kv_heads * c.head_dim), poison);
  v_cmp = k_cmp;
}

template <class T>
kernels::CompressParams<T> CompressBuffers<T>::params() {
  kernels::CompressParams<T> p;
  p.rows = static_cast<std::int64_t>(source.block.size());
  p.num_kv_heads = source.kv_heads;
  p.head_dim = source.head_dim;
  p.cmp_block = source.cmp_block;
  p.cmp_stride = source.cmp_stride;
  p.rotate = source.rotate;
  p.source = source.source.data();
  p.block = source.block.data();
  p.k_cache = k_cache.data();
  p.v_cache = v_cache.data();
  p.k_tree = k_tree.data();
  p.v_tree = v_tree.data();
  p.compress_key = compress_key.data();
  p.compress_value = compress_value.data();
  p.intra_block_pe = source.intra_block_pe.empty() ? nullptr : intra_block_pe.data();
  p.k_cmp = k_cmp.data();
  p.v_cmp = v_cmp.data();
  return p;
}

template <class T>
CompressResult CompressBuffers<T>::result() const {
  return {widened_rows(k_cmp), widened_rows(v_cmp)};
}
template struct CompressBuffers<double>;
template struct CompressBuffers<float>;
template struct CompressBuffers<Bf16>;

}  // namespace versieve::testing
