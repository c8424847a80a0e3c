// What a decode_layers launch moves, from its params.
#pragma once

#include "kernels/decode_layers/params.h"
#include "model/launches/decode_layers.h"

namespace versieve::kernels {

template <class T>
Traffic decode_layers_traffic(const DecodeLayersParams<T>& p) {
  traffic::DecodeLayersShape shape;
  shape.context_len = p.context_len;
  shape.pooled = p.tree_compressed;
  shape.element_bytes = static_cast<std::int64_t>(sizeof(T));
  for (const DecodeLayer<T>& layer : p.layers) {
    (layer.indices_in == nullptr ? shape.refresh_layers : shape.reuse_layers) += 1;
    shape.captures += layer.captured != nullptr ? 1 : 0;
  }
  return traffic::decode_layers(p.shape, shape);
}

}  // namespace versieve::kernels
