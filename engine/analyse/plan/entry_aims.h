// What a planner's table is after, and what its entries say beside their tokens a second, in every
// form of the file: how long a request that joins waits for its first token, and what tokens cost
// in energy.
#pragma once

#include <array>
#include <optional>
#include <string>

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

// As plan --objective has it: "energy" whatever is bounded, else "latency" of a plan within bounds,
// else "tokens".
const char* objective_of(const PlanAims& aims);
// " within 20 ms a token and 500 ms to the first"; empty without bounds.
std::string within_text(const PlanAims& aims);

}  // namespace versieve::engine
