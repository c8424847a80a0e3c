// The predicted bytes and flops of block_keys, for both backends.
#pragma once

#include "kernels/block_keys/params.h"
#include "model/launches/block_keys.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

template <class T>
Traffic block_keys_traffic(const BlockKeysParams<T>& p) {
  const std::int64_t rebuilt = key_block_count(p.length, p.key_block) - p.first_token / p.key_block;
  return traffic::block_keys(p.layers, rebuilt, p.key_block, p.num_kv_heads * p.head_dim,
                             sizeof(T));
}

}  // namespace versieve::kernels
