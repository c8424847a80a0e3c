// The predicted bytes and flops of ReSA's launches, for both backends.
#pragma once

#include "kernels/resa_decode/params.h"
#include "model/traffic.h"

namespace versieve::kernels {

template <class T>
traffic::ResaShape resa_shape(const ResaDecodeParams<T>& p) {
  return {.num_heads = p.num_heads,
          .num_kv_heads = p.num_kv_heads,
          .head_dim = p.head_dim,
          .context_len = p.length(),
          .key_block = p.selection.key_block,
          .blocks = p.block_count(),
          .active_blocks = p.active_count(),
          .element_bytes = sizeof(T)};
}

template <class T>
Traffic resa_decode_traffic(const ResaDecodeParams<T>& p) {
  return traffic::resa_decode(resa_shape(p));
}

template <class T>
Traffic block_keys_traffic(const BlockKeysParams<T>& p) {
  const std::int64_t rebuilt = key_block_count(p.length, p.key_block) - p.first_token / p.key_block;
  return traffic::block_keys(p.layers, rebuilt, p.key_block, p.num_kv_heads * p.head_dim,
                             sizeof(T));
}

}  // namespace versieve::kernels
