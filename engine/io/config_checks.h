// What targets and drafts share in their configurations: what this engine does not compute is
// refused by name.
#pragma once

#include "engine/io/config_fields.h"

namespace versieve::engine {

void check_dtype(const ConfigFields& config);
// What no family of this engine computes.
void check_unsupported(const ConfigFields& config);
// Both dialects: rope_theta with rope_scaling, and rope_parameters (transformers 5).
double rope_theta(const ConfigFields& config);

}  // namespace versieve::engine
