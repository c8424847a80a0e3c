// What any tuple of a plan costs and yields in one range of contexts, for a number of requests at a
// time: of the target's own attention, or of another system; and the memory that they take.
#pragma once

#include <cstdint>
#include <string>

#include "model/plan/memory_need.h"
#include "model/plan/planner.h"
#include "model/plan/system_pricer.h"
#include "model/plan/tuple_pricer.h"

namespace versieve {

class CellPricer {
 public:
  // Keeps references to the fit, the target and the options' losses, and to `composed`, which keeps
  // what tuples of an NSA target are composed of.
  CellPricer(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
             const PlanOptions& options, std::int64_t concurrency = 1,
             ComposedTuples* composed = nullptr);
  CellPricer(const CellPricer&) = delete;
  CellPricer& operator=(const CellPricer&) = delete;

  const Pricer& own() const { return own_; }
  const SystemPricer& systems() const { return systems_; }
  std::int64_t concurrency() const { return own_.concurrency(); }
  // REQUIRES: of another system, system_evidence(strategy, ...) for the bucket's contexts.
  Evaluation evaluate(const Strategy& strategy, const ContextBucket& bucket,
                      std::string& note) const;
  // Of requests as long as the bucket's longest context.
  MemoryNeed memory(const Strategy& strategy, const ContextBucket& bucket) const {
    return memory_on(hardware_, strategy, bucket);
  }
  MemoryNeed memory_on(const HardwareSpec& machine, const Strategy& strategy,
                       const ContextBucket& bucket) const;
  bool fits(const Strategy& strategy, const ContextBucket& bucket) const {
    return memory(strategy, bucket).requests() >= concurrency();
  }

 private:
  const FittedModel& fit_;
  const LlmShape& target_;
  HardwareSpec hardware_;
  Pricer own_;
  SystemPricer systems_;
};

}  // namespace versieve
