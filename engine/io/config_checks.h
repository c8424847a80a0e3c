// What targets and drafts share in their configurations: what this engine does not compute is
// refused by name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "engine/io/config_fields.h"
#include "model/words/rotary.h"

namespace versieve::engine {

void check_dtype(const ConfigFields& config);
// What no family of this engine computes. `own`: flags that only say of a family what it always
// has.
void check_unsupported(const ConfigFields& config, std::initializer_list<const char*> own = {});

// What models of other code than these families' ask for in a target: capped or scaled logits and
// scores, experts, packed weights, tokens that see what follows them.
void check_foreign(const ConfigFields& config, std::int64_t head_dim);

struct Rotary {
  double theta = 10000.0;
  RopeScaling scaling;
};
// Every dialect: rope_theta with rope_scaling, and rope_parameters (transformers 5), whose theta
// may stand outside; where several say it, they must agree. `theta_if_absent` where none does.
// `max_position`: where a scaling does not say which positions were the original ones.
Rotary read_rotary(const ConfigFields& config, std::int64_t max_position,
                   double theta_if_absent = 10000.0);
// None where it is null, false or switched off by use_sliding_window, which is `used` where it is
// absent; `if_absent` where nothing is said of the window.
std::optional<std::int64_t> sliding_window(const ConfigFields& config,
                                           std::optional<std::int64_t> if_absent, bool used);

}  // namespace versieve::engine
