// Rotary frequencies that a checkpoint stores: whether they are those of its config.
#pragma once

#include <cstdint>
#include <string>

#include "engine/io/tensor_view.h"
#include "model/words/rotary.h"

namespace versieve::engine {

struct RotaryBase {
  double theta = 0.0;
  std::int64_t head_dim = 0;
  RopeScaling scaling = {};
};

// Element i must be the frequency of pair i, scaled or as scaling finds it (writers keep either),
// as closely as its type can say it. One sentence that names the tensor and rope_theta, or empty.
std::string frequencies_error(const std::string& name, const TensorView& view,
                              const RotaryBase& rotary);

}  // namespace versieve::engine
