// A draft level's attention over joint rows: taken apart by the launch that attends, or by
// rope_append before it. Both must leave the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops.h"

namespace versieve::testing {

struct JointAttentionShape {
  std::int64_t heads = 5, kv_heads = 1, head_dim = 64;
  std::int64_t context_len = 700, window = 512;
  std::int64_t level = 8;   // queries: the newest nodes
  std::int64_t levels = 3;  // of nodes, the newest included
};

template <class T>
struct JointAttentionResult {
  std::vector<T> out, k_tree, v_tree;
};

// `fill(count, seed)` gives values of T. Nodes of a level follow each other's parents in the level
// before; the first level's parent is node 0, which follows the context.
template <class T, class Fill>
JointAttentionResult<T> joint_attention(kernels::Ops<T>& ops, const JointAttentionShape& s,
                                        const Fill& fill, bool together) {
  using Sum = kernels::SumOf<T>;
  using kernels::OpsBuffer;
  const std::int64_t nodes = 1 + s.levels * s.level, first = nodes - s.level;
  const std::int64_t kv_width = s.kv_heads * s.head_dim, q_width = s.heads * s.head_dim;
  const std::int64_t angles = s.level * s.head_dim / 2;
  std::vector<std::int32_t> lists;  // parents, positions, queries
  for (std::int64_t i = 0; i < nodes; ++i) {
    const std::int64_t mixed = i - s.level + (i * 5 + 3) % s.level - (i - 1) % s.level;
    lists.push_back(static_cast<std::int32_t>(i == 0 ? -1 : i <= s.level ? 0 : mixed));
  }
  for (std::int64_t i = 0; i < nodes; ++i) {
    lists.push_back(static_cast<std::int32_t>(s.context_len + (i + s.level - 1) / s.level));
  }
  for (std::int64_t i = 0; i < s.level; ++i) {
    lists.push_back(static_cast<std::int32_t>(first + i));
  }
  const OpsBuffer<T, std::int32_t> list(ops, lists);
  const OpsBuffer<T> k(ops, fill(s.context_len * kv_width, 1)), v(ops, fill(k.count(), 2));
  const OpsBuffer<T> k_tree(ops, fill(nodes * kv_width, 3)), v_tree(ops, fill(k_tree.count(), 4));
  const OpsBuffer<T> x(ops, fill(s.level * (q_width + 2 * kv_width), 5));
  const OpsBuffer<T> q(ops, s.level * q_width), out(ops, s.level * q_width);
  const OpsBuffer<T, Sum> cosine(ops, angles), sine(ops, angles);
  const std::int32_t* const position = list.data() + nodes;
  ops.embed({.angles = {.n = s.level,
                        .head_dim = s.head_dim,
                        .position = position + first,
                        .cosine = cosine.data(),
                        .sine = sine.data()}});
  kernels::TreeAttentionParams<T> p{.num_heads = s.heads,
                                    .num_kv_heads = s.kv_heads,
                                    .head_dim = s.head_dim,
                                    .context_len = s.context_len,
                                    .first_position = 1,
                                    .window = s.window,
                                    .num_queries = s.level,
                                    .num_nodes = nodes,
                                    .query_node = position + nodes,
                                    .parent = list.data(),
                                    .position = position,
                                    .q = q.data(),
                                    .k = k.data(),
                                    .v = v.data(),
                                    .k_tree = k_tree.data(),
                                    .v_tree = v_tree.data(),
                                    .out = out.data()};
  if (together) {
    p.q = nullptr;
    p.joint = {.x = x.data(),
               .cosine = cosine.data(),
               .sine = sine.data(),
               .k = k_tree.data(),
               .v = v_tree.data()};
  } else {
    ops.rope_append({.n = s.level,
                     .num_heads = s.heads,
                     .num_kv_heads = s.kv_heads,
                     .head_dim = s.head_dim,
                     .x = x.data(),
                     .cosine = cosine.data(),
                     .sine = sine.data(),
                     .q = q.data(),
                     .k = k_tree.data() + first * kv_width,
                     .v = v_tree.data() + first * kv_width});
  }
  ops.tree_attention(p);
  return {out.read(), k_tree.read(), v_tree.read()};
}

}  // namespace versieve::testing
