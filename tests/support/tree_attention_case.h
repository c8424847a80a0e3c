// One tree_attention problem held in double and its answer by plain loops.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace versieve::testing {

struct TreeAttentionCase {
  std::int64_t heads = 4, kv_heads = 2, head_dim = 16;
  std::int64_t context_len = 0, first_position = 0, window = 0;
  std::vector<std::int32_t> parent, position, query_node;
  std::vector<double> q, k, v, k_tree, v_tree;

  std::string text() const;
};

// `cuda` keeps to the head sizes the CUDA kernels take.
TreeAttentionCase random_tree_attention_case(std::mt19937_64& rng, bool cuda);
// The answer to `c` rounded to T.
template <class T>
std::vector<double> plain_tree_attention(const TreeAttentionCase& c);
// The path of one query's node moved into the cache but for the node itself, which is the only
// query.
TreeAttentionCase decoded_last(const TreeAttentionCase& c, std::int64_t query);

template <class T>
struct TreeAttentionBuffers {
  explicit TreeAttentionBuffers(const TreeAttentionCase& c);
  kernels::TreeAttentionParams<T> params();
  std::vector<double> result() const;

  TreeAttentionCase source;
  std::vector<T> q, k, v, k_tree, v_tree, out;
};

// Relative norm of the difference.
double relative_norm(const std::vector<double>& expected, const std::vector<double>& got);

}  // namespace versieve::testing
