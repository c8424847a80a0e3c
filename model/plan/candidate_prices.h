// What a few strategies yield on machine after machine in one range of contexts: their launches,
// which depend on no machine, are composed once and then priced on each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/launches/step_composition.h"
#include "model/plan/planner.h"

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
    return throughput(strategy, on(machine), concurrency);
  }

  // A machine as the fit prices it, for several strategies.
  class Machine {
    friend class CandidatePrices;
    HardwareSpec hardware_;
  };
  Machine on(const HardwareSpec& machine) const;
  double throughput(const Strategy& strategy, const Machine& machine, std::int64_t concurrency = 1);

 private:
  struct Launches {
    StepWork work;
    double weight = 1.0, factor = 1.0;  // of their times
  };
  struct Candidate {
    double accepted = 0.0;  // tokens a step
    std::vector<Launches> launches;
  };
  const Candidate& candidate(const Strategy& strategy, std::int64_t concurrency);

  const FittedModel& fit_;
  const LlmShape& target_;
  DraftShape draft_;
  ContextBucket bucket_;
  CostParameters parameters_;
  std::map<std::pair<std::string, std::int64_t>, Candidate> candidates_;
};

}  // namespace versieve
