// What targets and drafts share in their configurations: what this engine does not compute is
// refused by name.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/io/config_fields.h"

namespace versieve::engine {

void check_dtype(const ConfigFields& config);
// What no family of this engine computes.
void check_unsupported(const ConfigFields& config);
// Every dialect: rope_theta with rope_scaling, and rope_parameters (transformers 5), whose theta
// may stand outside; where several say it, they must agree. 10000 where none does, as in both.
double rope_theta(const ConfigFields& config);
// None where it is absent, null, false or switched off by use_sliding_window.
std::optional<std::int64_t> sliding_window(const ConfigFields& config);

}  // namespace versieve::engine
