// What the traffic functions need to know of a call.
#pragma once

#include "kernels/nsa_verify/params.h"
#include "model/launches/nsa_shape.h"

namespace versieve::kernels {

template <class T>
traffic::NsaVerifyShape traffic_shape_of(const NsaVerifyParams<T>& p) {
  return {.nsa = p.nsa,
          .num_heads = p.num_heads,
          .num_kv_heads = p.num_kv_heads,
          .head_dim = p.head_dim,
          .context_len = p.context_len,
          .num_queries = p.num_queries,
          .element_bytes = sizeof(T),
          .routing = p.indices_in == nullptr,
          .group_size = p.group_size,
          .group_mode = p.group_mode,
          .importance = p.importance != nullptr};
}

}  // namespace versieve::kernels
