// What a plan is after beside tokens a second: how long a request waits for its first token, and
// what its tokens cost in energy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/cost/energy_law.h"
#include "model/cost/prompt_times.h"
#include "model/words/evaluation.h"

namespace versieve {

enum class Objective { kTokens, kEnergy };
inline constexpr int kObjectiveCount = 2;
const char* name_of(Objective objective);  // "tokens", "energy"

// Of a plan and of its table alike.
struct PlanAims {
  Objective objective = Objective::kTokens;
  // Only tuples of which 90 % of such requests have at most so many ms between tokens, in the mean,
  // and read their prompts and give the first token within so many.
  std::optional<double> itl_ms, ttft_ms;
  std::optional<PromptTimes> prompts;  // that the latter takes; without a bound it is told alone

  bool bounds() const { return itl_ms.has_value() || ttft_ms.has_value(); }
};

// Of a request that joins `concurrency` - 1 others with a prompt of `tokens`: its prompt in pieces
// of PromptTimes::rows, between which the others' steps go on as `tuple` has them. Waiting for a
// place is not in it.
struct FirstToken {
  double ms = 0.0;
  Interval interval;  // 90 %
};
FirstToken first_token(const PromptTimes& prompts, const Evaluation& tuple,
                       std::int64_t concurrency, std::int64_t tokens);

// Of all requests together. REQUIRES: law.sampled().
struct EnergyYield {
  double tokens_per_joule = 0.0;
  Interval interval;  // 90 %: of the throughput, and of the law
  double watts = 0.0;
};
// Of more requests at once than were sampled, in log for each doubling (an assumption).
inline constexpr double kEnergyRequestsError = 0.05;
EnergyYield energy_yield(const EnergyLaw& law, const Evaluation& tuple, std::int64_t concurrency);

// What tuples of one number of requests are ranked by, and numbers of requests after that: tokens a
// second or a joule.
double yield_of(Objective objective, const EnergyLaw& law, const Evaluation& tuple);

// Why the tuple that comes nearest to them keeps not both bounds, as one sentence; `tokens` of a
// prompt. REQUIRES: aims.bounds().
std::string bounds_text(const PlanAims& aims, const Evaluation& best, std::int64_t concurrency,
                        std::int64_t tokens);

}  // namespace versieve
