// What tuples of a dense target yield on machine after machine in one range of contexts: their
// launches, which depend on no machine, are composed once and then priced on each.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/plan/cell_pricer.h"

namespace versieve {

class DensePrices {
 public:
  // Keeps references to the fit, the target and the options, whose draft and chains count.
  DensePrices(const FittedModel& fit, const LlmShape& target, const PlanOptions& options,
              const ContextBucket& bucket);

  // A machine as the fit prices it, for so many requests at once.
  struct Machine {
    HardwareSpec spec, priced;
    std::int64_t concurrency = 1;
    std::int64_t number = 0;                          // for ComposedStep::cost_on
    mutable std::shared_ptr<const CellPricer> whole;  // made where it is asked for
  };
  // REQUIRES: not the machine of the fit, whose measured steps correct what is predicted.
  Machine on(const HardwareSpec& machine, std::int64_t concurrency = 1);
  // Tokens a second of all requests, as SystemPricer::evaluate says it. REQUIRES: no sigmoids,
  // which plans rank where their sampler gains.
  double throughput(const Strategy& strategy, const Machine& machine);
  // With its intervals; slower by far, as nothing of it is kept.
  Evaluation evaluate(const Strategy& strategy, const Machine& machine) const;
  bool fits(const Strategy& strategy, const Machine& machine);

 private:
  struct Share {
    double weight = 1.0;  // how often a step has these launches
    ComposedStep launches;
  };
  struct Tuple {
    AcceptedTokens accepted;
    std::array<std::vector<Share>, kBucketSamples> steps;  // [sample of the range]
  };
  class Keeper;

  const CellPricer& whole(const Machine& machine) const;
  // Of any machine but the fit's.
  const CellPricer& composer(std::int64_t concurrency, const HardwareSpec& machine);
  Tuple& composed(const Strategy& strategy, const Machine& machine);

  const FittedModel& fit_;
  const LlmShape& target_;
  const PlanOptions& options_;
  ContextBucket bucket_;
  CostParameters parameters_;
  std::map<std::int64_t, std::unique_ptr<const CellPricer>> composers_;  // by requests
  std::unordered_map<std::string, Tuple> tuples_;                        // [text, requests]
  std::int64_t machines_ = 0;
};

}  // namespace versieve
