#include "engine/measure/bench/given_yield.h"

#include <algorithm>

#include "kernels/draft_tree/params.h"
#include "model/words/error.h"

namespace versieve::engine {

std::int64_t yield_of(const Strategy& strategy, std::optional<std::int64_t> given,
                      std::int64_t usual) {
  return strategy.draft.speculates()
             ? std::min(given.value_or(usual), kernels::longest_path(strategy.draft))
             : 1;
}

void check_yield(const Strategy& strategy, std::optional<std::int64_t> given) {
  if (given && *given < 1) {
    throw Error(ExitCode::kUsage, "yield is at least 1 token a step, the bonus token");
  }
  const std::int64_t most = kernels::longest_path(strategy.draft);
  if (given && strategy.draft.speculates() && *given > most) {
    throw Error(ExitCode::kUsage, "a step of " + strategy.text() + " yields at most " +
                                      std::to_string(most) +
                                      " tokens, its draft's longest path and the bonus token: "
                                      "yield " +
                                      std::to_string(*given) + " is above it");
  }
}

}  // namespace versieve::engine
