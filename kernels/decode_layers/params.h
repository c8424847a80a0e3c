// decode_layers: all layers of a target for one token in one launch, what an autoregressive step
// runs between its embedding row and its head. Same answers, bit for bit, as the launches that it
// replaces: linear, rope_append (with its compressed tokens) and nsa_verify of one node, layer by
// layer. Shapes: H query heads, G KV heads, d head size, L committed tokens, Lc committed
// compressed tokens, n selected blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/common/element.h"
#include "kernels/common/page_table.h"
#include "kernels/common/square_sum.h"
#include "kernels/common/step_counts.h"
#include "model/words/llm_shape.h"

namespace versieve::kernels {

// One layer: weights, caches, and the rows that its commit needs.
template <class T>
struct DecodeLayer {
  const T* joint = nullptr;           // [joint_rows, hidden]: q, k, v, gate rows
  const T* output = nullptr;          // [hidden, H d]
  const T* gate_up = nullptr;         // [2 intermediate, hidden]
  const T* down = nullptr;            // [hidden, intermediate]
  const T* post_norm = nullptr;       // [hidden]: weight of the norm before gate_up
  const T* next_norm = nullptr;       // [hidden]: of the next layer's first norm, or the last norm
  const T* compress_key = nullptr;    // [G, l]
  const T* compress_value = nullptr;  // [G, l]
  const T* intra_block_pe = nullptr;  // [G, l, d] or null
  const T* k = nullptr;               // [L, G, d]: the layer's caches
  const T* v = nullptr;
  const T* k_raw = nullptr;  // [L, G, d] before rotary; null where phi takes keys after rotary
  const T* k_cmp = nullptr;  // [Lc, G, d]
  const T* v_cmp = nullptr;
  T* k_tree = nullptr;  // [1, G, d]: written for the commit
  T* v_tree = nullptr;
  T* k_raw_tree = nullptr;  // or null, as k_raw
  T* k_cmp_tree = nullptr;  // [1, G, d]: of the compressed token that the node completes, if any
  T* v_cmp_tree = nullptr;
  // [G, n]: `indices` of the newest layer before this one that routes; null: this layer routes.
  const std::int32_t* indices_in = nullptr;
  std::int32_t* indices = nullptr;  // [G, n], written
  T* captured = nullptr;            // [hidden] or null: gets the stream that leaves this layer
};

template <class T>
struct DecodeLayersParams {
  LlmShape shape;
  std::vector<DecodeLayer<T>> layers;
  // Device memory; null: the counts below. Not null: context_len and tree_compressed are upper
  // bounds.
  const StepCounts* counts = nullptr;
  std::int64_t context_len = 0;      // L
  std::int64_t tree_compressed = 0;  // 1 if the node completes a compressed token, else 0
  std::int64_t cache_rows = 0;       // that the caches have room for, of tokens and of compressed
  std::int64_t compressed_rows = 0;  // tokens; what lies past L and Lc is finite
  // Of the caches' rows, of which there are so many then; of L + 1 and Lc + 1 rows.
  PageTable pages, compressed_pages;
  // [tree_compressed, l]: tokens of that compressed token; c >= 0 is a cache row, -1 the node.
  const std::int32_t* source = nullptr;
  const std::int32_t* block = nullptr;  // [tree_compressed]: its index
  const SumOf<T>* cosine = nullptr;     // [d/2] of the node's position
  const SumOf<T>* sine = nullptr;
  T* hidden = nullptr;                 // [hidden]: the residual stream, in and out
  T* weighted = nullptr;               // [hidden]: it times the next norm's weight, in and out
  const SquareSum* squares = nullptr;  // [1]: squares of `hidden` as it comes in
  SquareSum* out_squares = nullptr;    // [1]: as it goes out; set, not added to
};

}  // namespace versieve::kernels
