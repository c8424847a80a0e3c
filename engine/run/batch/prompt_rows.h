// Tokens of prompts that a step of a batch reads where nobody says how many: what sessions take,
// and what plans and benches count on.
#pragma once

#include <cstdint>

#include "engine/run/model/target.h"

namespace versieve::engine {

// Twice as many on a GPU that attends a long piece of a prompt by a launch of its own, which there
// shortened both first tokens and gaps (engine/measure/bench/README.md).
constexpr std::int64_t usual_prompt_rows(bool attends_at_once) {
  constexpr std::int64_t kTogether = Target<float>::kMostTogether;
  return attends_at_once ? 2 * kTogether : kTogether;
}

}  // namespace versieve::engine
