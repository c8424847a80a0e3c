// index_keys, index_query: what a token-level indexer scores by on a target that was trained with
// no index keys (model/words/index_shape.h): the slowest rotary pairs of every KV head's key, and
// the same of the query heads. Shapes: L tokens, G KV heads, H query heads, d head size, I index
// heads, D size of an index key, k tokens chosen, w newest tokens.
#pragma once

#include <cstdint>

#include "kernels/common/element.h"
#include "kernels/common/page_table.h"
#include "kernels/common/step_counts.h"
#include "kernels/topk/order_key.h"
#include "model/words/index_shape.h"

namespace versieve::kernels {

template <class T>
struct IndexKeysParams {
  // Device memory; null: the bounds below. Not null: L is counts->context_len, and the keys of the
  // newest `length - first_token` tokens are made.
  const StepCounts* counts = nullptr;
  std::int64_t layers = 1;
  std::int64_t num_kv_heads = 0;  // G
  std::int64_t head_dim = 0;      // d, even
  IndexShape index;
  std::int64_t first_token = 0;     // keys of [first_token, length) are made
  std::int64_t length = 0;          // L
  std::int64_t k_layer_rows = 0;    // token rows between two layers of k
  std::int64_t key_layer_rows = 0;  // and of the index keys
  PageTable pages;                  // of k
  const T* k = nullptr;             // [layers, >= L, G, d], or [layers, *, G, d] by `pages`, turned
  T* keys = nullptr;                // [layers, >= L, D]
};

// Before a layer's scores: the index query, and what the layer's list of tokens is to hold beside
// what is chosen. The list is k chosen tokens and w newest ones, `count` of them in use.
template <class T>
struct IndexQueryParams {
  const StepCounts* counts = nullptr;  // device memory or null: L is context_len
  std::int64_t context_len = 0;        // L
  std::int64_t num_heads = 0;          // H
  std::int64_t num_kv_heads = 0;       // G, divides H
  std::int64_t head_dim = 0;           // d, even
  IndexShape index;
  std::int64_t chosen = 0;        // k
  std::int64_t newest = 0;        // w
  const T* q = nullptr;           // [H, d], after rotary
  T* index_q = nullptr;           // [I, D]
  std::int32_t* list = nullptr;   // [k + w]: [0, k) as the last step left it, the rest is written
  std::int32_t* hint = nullptr;   // [k]: what [0, k) held, for the choice that overwrites it
  std::int32_t* count = nullptr;  // [1]: min(L, k + w)
};

// The place in a KV head's or query head's row that element e of an index row takes, given whose
// slot it lies in; -1: of a head's slot past the last, zero.
VERSIEVE_HOST_DEVICE inline std::int64_t index_slot(const IndexShape& index, std::int64_t e) {
  return e / (2 * index.pairs);
}
VERSIEVE_HOST_DEVICE inline std::int64_t index_source(const IndexShape& index,
                                                      std::int64_t head_dim, std::int64_t e) {
  const std::int64_t within = e % (2 * index.pairs);
  const bool upper = within >= index.pairs;
  return (upper ? head_dim : head_dim / 2) - index.pairs + within - (upper ? index.pairs : 0);
}
// The newest tokens' first: behind what is chosen where all of a short context is listed.
VERSIEVE_HOST_DEVICE inline std::int64_t first_newest(std::int64_t context_len, std::int64_t chosen,
                                                      std::int64_t newest) {
  return context_len - newest > chosen ? context_len - newest : chosen;
}

}  // namespace versieve::kernels
