// What a few strategies yield on machine after machine in one range of contexts: their launches,
// which depend on no machine, are composed once and then priced on each.
#pragma once

#include <cstdint>

#include "model/plan/tuple_pricer.h"

namespace versieve {

class CandidatePrices {
 public:
  // Keeps references to the fit and the target.
  CandidatePrices(const FittedModel& fit, const LlmShape& target, const DraftShape& draft,
                  const ContextBucket& bucket);

  // Tokens a second of `concurrency` requests at once, as Pricer::evaluate says it.
  // REQUIRES: not the machine of the fit, whose measured steps correct what is predicted; of
  // several requests no measured ones (FittedModel::batch), which do so too.
  double throughput(const Strategy& strategy, const HardwareSpec& machine,
                    std::int64_t concurrency = 1) {
    return throughput(strategy, on(machine, concurrency));
  }

  // A machine as the fit prices it, for several strategies.
  Pricer on(const HardwareSpec& machine, std::int64_t concurrency = 1);
  double throughput(const Strategy& strategy, const Pricer& machine);

 private:
  const FittedModel& fit_;
  const LlmShape& target_;
  DraftShape draft_;
  ContextBucket bucket_;
  ComposedTuples composed_;
};

}  // namespace versieve
