// tree_attention on the CPU, one (query, KV head) after the other.
#pragma once

#include "kernels/ops.h"

namespace versieve::kernels {

// T = double, float or Bf16 (computed in f32). Results do not depend on `threads`.
template <class T>
void tree_attention_cpu(const TreeAttentionParams<T>& p, int threads);

}  // namespace versieve::kernels
