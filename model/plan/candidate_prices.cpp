#include "model/plan/candidate_prices.h"

#include <array>

#include "model/words/assert.h"

namespace versieve {

CandidatePrices::CandidatePrices(const FittedModel& fit, const LlmShape& target,
                                 const DraftShape& draft, const ContextBucket& bucket,
                                 std::int64_t requests)
    : fit_(fit), target_(target), draft_(draft), bucket_(bucket), requests_(requests) {}

Pricer CandidatePrices::on(const HardwareSpec& machine, std::int64_t concurrency) {
  VERSIEVE_ASSERT(machine.key != fit_.hardware_key, "measured steps would correct it");
  VERSIEVE_ASSERT(concurrency == 1 || fit_.batch.points == 0, "measured batches would correct it");
  Pricer out(fit_, machine, target_, draft_, requests_, concurrency);
  out.keep_in(composed_);
  return out;
}

double CandidatePrices::throughput(const Strategy& strategy, const Pricer& machine) {
  const ComposedTuple& tuple = composed_.of(strategy, bucket_, machine);
  std::array<double, kBucketSamples> times_us{};
  const StepCost cost = machine.cost_of(tuple, times_us);
  return static_cast<double>(machine.concurrency()) * tuple.accepted.mean / cost.time_us * 1e6;
}

}  // namespace versieve
