// What an entry of a planner's table says beside its tokens a second, in every form of the file:
// how long a request that joins waits for its first token, and what tokens cost in energy.
#pragma once

#include <array>
#include <optional>

#include "model/plan/planner.h"

namespace versieve::engine {

struct EntryAims {
  std::optional<FirstToken> first;    // none: the plan holds no measured prompts
  std::optional<EnergyYield> energy;  // none: power was not sampled

  // ttft_ms and tokens_per_joule, each with its interval, and watts: as tables without words hold
  // them.
  std::array<std::optional<double>, 7> numbers() const;
};

EntryAims aims_of(const PlanTable& table, const PlanEntry& entry);

}  // namespace versieve::engine
