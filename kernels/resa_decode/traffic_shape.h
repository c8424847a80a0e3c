// The predicted bytes and flops of ReSA's launches, for both backends.
#pragma once

#include "kernels/resa_decode/params.h"
#include "model/launches/resa_decode.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

template <class T>
traffic::ResaShape resa_shape(const ResaDecodeParams<T>& p) {
  return {.num_heads = p.num_heads,
          .num_kv_heads = p.num_kv_heads,
          .head_dim = p.head_dim,
          .context_len = p.length(),
          .key_block = p.selection.key_block,
          .blocks = p.block_count(),
          .local_blocks = p.selection.n_local,
          .active_blocks = p.active_count(),
          .element_bytes = sizeof(T)};
}

template <class T>
Traffic resa_decode_traffic(const ResaDecodeParams<T>& p) {
  return traffic::resa_decode(resa_shape(p));
}

}  // namespace versieve::kernels
