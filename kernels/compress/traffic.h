// The predicted bytes and flops of a compress launch, for both backends.
#pragma once

#include "kernels/ops.h"
#include "model/launches/compress.h"
#include "model/words/traffic.h"

namespace versieve::kernels {

template <class T>
Traffic compress_traffic(const CompressParams<T>& p) {
  traffic::CompressShape shape;
  shape.rows = p.rows;
  shape.num_kv_heads = p.num_kv_heads;
  shape.head_dim = p.head_dim;
  shape.cmp_block = p.cmp_block;
  shape.cmp_stride = p.cmp_stride;
  shape.element_bytes = sizeof(T);
  return traffic::compress(shape);
}

}  // namespace versieve::kernels
