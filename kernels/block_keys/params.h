// block_keys: the elementwise least and greatest key of each block of b tokens, what ReSA scores a
// block by. Source: Rectified Sparse Attention, equation 2 (after Quest). Shapes: L tokens, G KV
// heads, d head size, b tokens a block, M = ceil(L / b) blocks, the last of them possibly with
// fewer tokens.
#pragma once

#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/common/page_table.h"
#include "kernels/common/step_counts.h"
#include "kernels/topk/order_key.h"

namespace versieve::kernels {

template <class T>
struct BlockKeysParams {
  // Device memory; null: the bounds below. Not null: L is counts->context_len, and the blocks of
  // the newest `length - first_token` tokens are rebuilt.
  const StepCounts* counts = nullptr;
  std::int64_t layers = 1;
  std::int64_t num_kv_heads = 0;    // G
  std::int64_t head_dim = 0;        // d
  std::int64_t key_block = 16;      // b
  std::int64_t first_token = 0;     // blocks that hold a token of [first_token, length) are rebuilt
  std::int64_t length = 0;          // L
  std::int64_t k_layer_rows = 0;    // token rows between two layers of k
  std::int64_t key_layer_rows = 0;  // block rows between two layers of kmin and kmax
  PageTable pages;                  // of k
  const T* k = nullptr;             // [layers, >= L, G, d], or [layers, *, G, d] by `pages`
  T* kmin = nullptr;                // [layers, >= M, G, d]
  T* kmax = nullptr;                // [layers, >= M, G, d]
};

// M of L tokens.
VERSIEVE_HOST_DEVICE inline std::int64_t key_block_count(std::int64_t length,
                                                         std::int64_t key_block) {
  return (length + key_block - 1) / key_block;
}

}  // namespace versieve::kernels
