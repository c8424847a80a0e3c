// What a few strategies yield on machine after machine in one range of contexts: their launches,
// which depend on no machine, are composed once and then priced on each.
#pragma once

#include <cstdint>

#include "model/plan/tuple_pricer.h"

namespace versieve {

class CandidatePrices {
 public:
  // Keeps references to the fit and the target. `requests`: that intervals are of.
  CandidatePrices(const FittedModel& fit, const LlmShape& target, const DraftShape& draft,
                  const ContextBucket& bucket, std::int64_t requests = kUsualRequests);

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
  std::int64_t requests_;
  ComposedTuples composed_;
};

}  // namespace versieve
