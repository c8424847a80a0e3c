// The predicted bytes and flops of taking rows apart, without compressed tokens, for both backends.
#pragma once

#include "kernels/ops.h"
#include "model/launches/rope_append.h"
#include "model/launches/row_ops.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

template <class T>
Traffic rope_append_traffic(const RopeAppendParams<T>& p) {
  Traffic t = traffic::rope_append(p.n, p.num_heads, p.num_kv_heads, p.head_dim, p.gate_count,
                                   p.k_raw != nullptr, sizeof(T));
  if (p.cache_row != nullptr) {
    t += traffic::kept_rows(p.n, 2 * p.num_kv_heads * p.head_dim, sizeof(T));
  }
  return t;
}

}  // namespace versieve::kernels
