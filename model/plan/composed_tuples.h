// What tuples' steps are composed of and yield in ranges of contexts, which depends on no machine:
// worked out once for every machine that they are priced on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/plan/composed_step.h"
#include "model/plan/planner.h"

namespace versieve {

class Pricer;

// The launches of a step, without a StepWork's room for more of them.
class ComposedStep {
 public:
  // `factor`: on the time of its launches.
  ComposedStep(const StepWork& work, double factor);

  // Asked again with the same `machine` it is what it was.
  const StepCost& cost_on(std::int64_t machine, const PricedOn& priced, StepWork& scratch);
  std::size_t bytes() const { return launches_.size() * sizeof(LaunchWork) + sizeof *this; }

 private:
  std::vector<LaunchWork> launches_;
  double host_trips_, led_trips_, enqueue_us_, host_us_;
  bool led_by_host_;
  double factor_;
  StepCost cost_;
  std::int64_t machine_ = 0;
};

struct ComposedTuple {
  struct Share {
    double weight = 1.0;  // how often a step is this one
    std::shared_ptr<ComposedStep> step;
  };
  AcceptedTokens accepted;
  bool other_order = false;  // what its groups share is known of the other order alone
  std::array<std::vector<Share>, kBucketSamples> steps;  // [sample of the range]
};

class ComposedTuples {
 public:
  // REQUIRES: all pricers that ask differ in their machine and number of requests alone. The answer
  // holds until the next question.
  const ComposedTuple& of(const Strategy& strategy, const ContextBucket& range,
                          const Pricer& pricer);
  // Chains whose length follows share the steps of each length.
  std::shared_ptr<ComposedStep> step(const DraftedLength& drafted, std::int64_t context,
                                     double overlap, const Pricer& pricer);
  std::int64_t new_machine() { return ++machines_; }  // for ComposedStep::cost_on

 private:
  std::unordered_map<std::string, ComposedTuple> tuples_;                 // [text, range, requests]
  std::unordered_map<std::string, std::shared_ptr<ComposedStep>> steps_;  // [text, context, ...]
  std::size_t bytes_ = 0;
  std::int64_t machines_ = 0;
};

// planner.h's plan, by what `composed` holds, and adding to it. Null: nothing is kept.
PlanTable plan(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
               const PlanOptions& options, const Candidates& candidates, ComposedTuples* composed);

}  // namespace versieve
