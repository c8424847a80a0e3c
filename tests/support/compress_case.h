// One compress (phi) problem held in double and its answer by plain loops.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace versieve::testing {

struct CompressCase {
  std::int64_t kv_heads = 1, head_dim = 2, cmp_block = 1, cmp_stride = 1;
  std::int64_t cache_tokens = 1, tree_tokens = 1;
  bool rotate = true;
  std::vector<std::int32_t> source, block;
  std::vector<double> k_cache, v_cache, k_tree, v_tree, compress_key, compress_value;
  std::vector<double> intra_block_pe;  // empty: none

  std::string text() const;
};

struct CompressResult {
  std::vector<double> k_cmp, v_cmp;  // [rows, G, d]
};

CompressCase random_compress_case(std::mt19937_64& rng, bool cuda);
template <class T>
CompressResult plain_compress(const CompressCase& c);

template <class T>
struct CompressBuffers {
  explicit CompressBuffers(const CompressCase& c);
  kernels::CompressParams<T> params();
  CompressResult result() const;

  CompressCase source;
  std::vector<T> k_cache, v_cache, k_tree, v_tree, compress_key, compress_value, intra_block_pe;
  std::vector<T> k_cmp, v_cmp;
};

}  // namespace versieve::testing
