// The predicted bytes and flops of a tree_attention launch, for both backends.
#pragma once

#include "kernels/ops.h"
#include "model/launches/rope_append.h"
#include "model/launches/tree_attention.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

template <class T>
Traffic tree_attention_traffic(const TreeAttentionParams<T>& p) {
  traffic::TreeAttentionShape shape;
  shape.num_heads = p.num_heads;
  shape.num_kv_heads = p.num_kv_heads;
  shape.head_dim = p.head_dim;
  shape.context_len = p.selected.token == nullptr ? p.context_len : p.selected.count;
  shape.first_position = p.first_position;
  shape.window = p.window;
  shape.num_queries = p.num_queries;
  shape.num_nodes = p.num_nodes;
  shape.element_bytes = sizeof(T);
  shape.cache_term = p.cache_term;
  Traffic t = traffic::tree_attention(shape);
  if (p.joint.x != nullptr) {
    t += traffic::turned_rows(p.num_queries, p.num_heads, p.num_kv_heads, p.head_dim, sizeof(T));
  }
  return t;
}

}  // namespace versieve::kernels
