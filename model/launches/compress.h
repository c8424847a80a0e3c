// Compressed tokens formed by phi (kernels/compress).
#pragma once

#include <cstdint>

#include "model/words/traffic.h"

namespace versieve {

struct StepShape;  // model/launches/step_shape.h

namespace traffic {

// `rows` neighbouring blocks.
struct CompressShape {
  std::int64_t rows = 0, num_kv_heads = 0, head_dim = 0, cmp_block = 0, cmp_stride = 0;
  std::int64_t element_bytes = 2;
};
Traffic compress(const CompressShape& shape);

}  // namespace traffic

// Path-local compressed tokens of a layer, which come out of the launch that takes the projection's
// rows apart: of a recorded step one a node, its bound; else those that the host lists, at their
// mean (the node whose position completes a block forms one).
Traffic pooled_tokens(const StepShape& shape);

}  // namespace versieve
