#include "model/plan/candidate_prices.h"

#include "model/plan/tuple_pricer.h"
#include "model/words/assert.h"

namespace versieve {

CandidatePrices::CandidatePrices(const FittedModel& fit, const LlmShape& target,
                                 const DraftShape& draft, const ContextBucket& bucket)
    : fit_(fit), target_(target), draft_(draft), bucket_(bucket), parameters_(fit.parameters()) {}

CandidatePrices::Machine CandidatePrices::on(const HardwareSpec& machine) const {
  VERSIEVE_ASSERT(machine.key != fit_.hardware_key, "measured steps would correct it");
  Machine out;
  out.hardware_ = fit_.priced_on(machine);
  return out;
}

double CandidatePrices::throughput(const Strategy& strategy, const Machine& machine,
                                   std::int64_t concurrency) {
  VERSIEVE_ASSERT(concurrency == 1 || fit_.batch.points == 0, "measured batches would correct it");
  const Candidate& priced = candidate(strategy, concurrency);
  StepSum sum({machine.hardware_, parameters_, fit_.conditions});
  for (const Launches& launches : priced.launches) {
    sum.take(launches.work, launches.weight, launches.factor);
  }
  return static_cast<double>(concurrency) * priced.accepted / sum.cost().time_us * 1e6;
}

const CandidatePrices::Candidate& CandidatePrices::candidate(const Strategy& strategy,
                                                             std::int64_t concurrency) {
  const auto [found, is_new] = candidates_.try_emplace({strategy.text(), concurrency});
  Candidate& candidate = found->second;
  if (!is_new) {
    return candidate;
  }
  struct Keeper : StepSink {
    explicit Keeper(std::vector<Launches>& all) : kept(all) {}
    void take(const StepWork& work, double weight, double factor) override {
      kept.push_back({work, weight / static_cast<double>(kBucketSamples), factor});
    }
    std::vector<Launches>& kept;
  };
  // Any machine's: launches are composed alike for all.
  const Pricer pricer(fit_, hardware_by_key(fit_.hardware_key), target_, draft_, kUsualRequests,
                      concurrency);
  const double overlap = accepted_overlap(fit_.acceptance, bucket_.low, bucket_.high);
  Keeper keeper(candidate.launches);
  for (std::int64_t i = 0; i < kBucketSamples; ++i) {
    pricer.compose(strategy, sampled_context(bucket_, i), overlap, keeper);
  }
  candidate.accepted = accepted_tokens(fit_.acceptance, strategy, bucket_.low, bucket_.high).mean;
  return candidate;
}

}  // namespace versieve
