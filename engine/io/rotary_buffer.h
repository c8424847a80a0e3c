// Rotary frequencies that a checkpoint stores: whether they are those of its config.
#pragma once

#include <cstdint>
#include <string>

#include "engine/io/tensor_view.h"

namespace versieve::engine {

struct RotaryBase {
  double theta = 0.0;
  std::int64_t head_dim = 0;
};

// Element i must be theta^(-2i / head_dim), as closely as its type can say it. One sentence that
// names the tensor and rope_theta, or empty.
std::string frequencies_error(const std::string& name, const TensorView& view,
                              const RotaryBase& rotary);

}  // namespace versieve::engine
