// tree_attention of joint rows on the CPU (JointQueries): rope_append, then attention. T = double,
// float or Bf16.
#pragma once

#include "kernels/cpu.h"

namespace versieve::kernels {

template <class T>
void joint_attention_cpu(const TreeAttentionParams<T>& p, int threads) {
  const std::size_t row = static_cast<std::size_t>(p.num_queries * p.head_dim);
  std::vector<T> q(row * static_cast<std::size_t>(p.num_heads));
  std::vector<T> k(row * static_cast<std::size_t>(p.num_kv_heads)), v(k.size());
  std::vector<std::int32_t> nodes(static_cast<std::size_t>(p.num_queries));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i] = p.query_node == nullptr ? static_cast<std::int32_t>(i) : p.query_node[i];
  }
  rope_append_cpu(RopeAppendParams<T>{.n = p.num_queries,
                                      .num_heads = p.num_heads,
                                      .num_kv_heads = p.num_kv_heads,
                                      .head_dim = p.head_dim,
                                      .x = p.joint.x,
                                      .cosine = p.joint.cosine,
                                      .sine = p.joint.sine,
                                      .q = q.data(),
                                      .k = k.data(),
                                      .v = v.data(),
                                      .cache_row = nodes.data(),
                                      .k_cache = p.joint.k,
                                      .v_cache = p.joint.v},
                  threads);
  TreeAttentionParams<T> turned = p;
  turned.joint = {};
  turned.q = q.data();
  tree_attention_cpu(turned, threads);
}

}  // namespace versieve::kernels
