// The step that a strategy asks for. What else a shape holds (overlap, how the step is enqueued,
// which of a dense cache it reads) is known to whoever measured it or prices it.
#pragma once

#include <cstdint>

#include "model/launches/launch_work.h"

namespace versieve {

StepShape asked_step(const Strategy& strategy, const LlmShape& target, const DraftShape& draft,
                     std::int64_t context_len, std::int64_t element_bytes);

}  // namespace versieve
