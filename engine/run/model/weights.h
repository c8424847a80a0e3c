// Where a target's and a draft's weights lie: device buffers, one member a matrix, rows = outputs.
// Shapes use the glossary's letters: V vocabulary, H query heads, G KV heads, d head size, l tokens
// of a compression block.
#pragma once

#include <vector>

#include "kernels/ops.h"

namespace versieve::engine {

template <class T>
struct LayerWeights {
  using Buffer = kernels::OpsBuffer<T>;

  Buffer input_norm;  // [input]: hidden of a target
  // [H*d + 2*G*d + gates, input]: query, key and value rows, then for NSA 3*H gate rows, h*3 +
  // branch (compressed, selected, window). One matrix, one launch. Of a target joint_rows in all.
  Buffer joint;
  Buffer bias;            // [H*d + 2*G*d], or empty: none
  Buffer q_norm, k_norm;  // [d], or empty: none
  Buffer output;          // [hidden, H*d]
  Buffer compress_key;    // [G, l]; NSA only
  Buffer compress_value;  // [G, l]; NSA only
  Buffer intra_block_pe;  // [G, l, d], or empty: none
  Buffer post_norm;       // [hidden]
  Buffer mlp_gate_up;     // [2*intermediate, hidden]: gate rows, then up rows
  Buffer mlp_down;        // [hidden, intermediate]
};

template <class T>
struct TargetWeights {
  kernels::OpsBuffer<T> embedding;  // [V, hidden]
  kernels::OpsBuffer<T> norm;       // [hidden]
  kernels::OpsBuffer<T> head;       // [V, hidden], or empty: the embedding (tied)
  std::vector<LayerWeights<T>> layers;
};

// EAGLE-3 head. Its layer reads concat(embedding, feature), 2*hidden wide; `layer.input_norm`
// normalises the embedding half.
template <class T>
struct DraftWeights {
  kernels::OpsBuffer<T> fuse;         // [hidden, 3*hidden]: captured streams to a feature
  kernels::OpsBuffer<T> hidden_norm;  // [hidden]: normalises the feature half
  LayerWeights<T> layer;
  kernels::OpsBuffer<T> norm;       // [hidden]
  kernels::OpsBuffer<T> head;       // [draft V, hidden]
  kernels::OpsBuffer<T> embedding;  // [V, hidden], or empty: the target's
  // [draft V]: the target's token of each draft token, or empty: the same.
  std::vector<std::int32_t> target_token;
};

}  // namespace versieve::engine
