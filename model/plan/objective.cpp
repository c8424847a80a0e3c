#include "model/plan/objective.h"

#include <algorithm>
#include <cmath>

#include "model/plan/request_intervals.h"
#include "model/words/assert.h"
#include "model/words/formatted.h"
#include "model/words/normal_law.h"

namespace versieve {

const char* name_of(Objective objective) {
  return objective == Objective::kEnergy ? "energy" : "tokens";
}

FirstToken first_token(const PromptTimes& prompts, const Evaluation& tuple,
                       std::int64_t concurrency, std::int64_t tokens) {
  const PromptTime prompt = prompt_time(prompts, tokens);
  const double spread = std::exp(kNinety * prompt.log_error);
  const double pieces = std::ceil(static_cast<double>(tokens) / static_cast<double>(prompts.rows));
  // Of a step of all the others' share is what they take.
  const double others =
      pieces * 1e-3 * static_cast<double>(concurrency - 1) / static_cast<double>(concurrency);
  return {.ms = prompt.ms + others * tuple.cost->time_us,
          .interval = {prompt.ms / spread + others * tuple.latency_interval_us.low,
                       prompt.ms * spread + others * tuple.latency_interval_us.high}};
}

EnergyYield energy_yield(const EnergyLaw& law, const Evaluation& tuple, std::int64_t concurrency) {
  VERSIEVE_ASSERT(law.sampled(), "energy was sampled");
  const double joules = law.joules(*tuple.cost);
  const double of_tokens =
      std::log(tuple.throughput_interval.high / tuple.throughput_interval.low) / 2.0;
  EnergyYield out{.tokens_per_joule = yield_of(Objective::kEnergy, law, tuple),
                  .interval = {},
                  .watts = joules / (1e-6 * tuple.cost->time_us)};
  const double more = std::log2(static_cast<double>(concurrency) /
                                static_cast<double>(std::max<std::int64_t>(1, law.most_requests)));
  out.interval = around(out.tokens_per_joule,
                        std::hypot(of_tokens, kNinety * law.log_error,
                                   kNinety * kEnergyRequestsError * std::max(0.0, more)));
  return out;
}

std::string bounds_text(const PlanAims& aims, const Evaluation& best, std::int64_t concurrency,
                        std::int64_t tokens) {
  const double each = 1e3 * static_cast<double>(concurrency);
  std::string wanted, takes;
  if (aims.itl_ms) {
    wanted = formatted("%g ms between tokens", *aims.itl_ms);
    takes = formatted("%.2f [%.2f, %.2f]", each / best.throughput,
                      each / best.throughput_interval.high, each / best.throughput_interval.low);
  }
  if (aims.ttft_ms) {
    const FirstToken first = first_token(*aims.prompts, best, concurrency, tokens);
    wanted +=
        (wanted.empty() ? "" : " and ") + formatted("%g ms to the first token", *aims.ttft_ms);
    takes += (takes.empty() ? "" : " and ") +
             formatted("%.1f [%.1f, %.1f]", first.ms, first.interval.low, first.interval.high);
  }
  return "no tuple keeps " + wanted + " with " + std::to_string(concurrency) +
         " at a time: " + best.strategy.text() + " takes " + takes;
}

double yield_of(Objective objective, const EnergyLaw& law, const Evaluation& tuple) {
  return objective == Objective::kEnergy
             ? tuple.throughput * 1e-6 * tuple.cost->time_us / law.joules(*tuple.cost)
             : tuple.throughput;
}

}  // namespace versieve
