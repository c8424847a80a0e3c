// The launches of one tuple's step as the prices take them: what a strategy asks of a step, and
// where the launches go that a pricer composes: into a sum, or into a list of parts.
#pragma once

#include <cstdint>
#include <vector>

#include "model/cost/fitted_model.h"
#include "model/cost/step_parts.h"
#include "model/launches/step_shape.h"

namespace versieve {

// `requests`: that the step takes at once, all as this one. Tokens are chosen as texts of the fit's
// temperature are; a strategy that names a sampler runs above 0, and is priced there.
StepShape step_shape(const Strategy& strategy, const LlmShape& target, const DraftShape& draft,
                     std::int64_t context_len, double overlap, const FittedModel& fit,
                     std::int64_t requests = 1);

// Whether steps of several requests on such a target were measured (model/cost/batch_fit.h).
bool runs_as_measured(const FittedModel& fit, const StepShape& shape);
// Of such a step, whose attention is corrected: the terms of many requests, into the work, and the
// factor on its time that its points say. REQUIRES: runs_as_measured.
double as_measured(const FittedModel& fit, const StepShape& shape, StepWork& work);

// What groups of that order share as the fit's pair showed it near that context; groups of one, and
// fits without a pair, leave the shape as it is.
void share_in_order(const FittedModel& fit, Traversal order, StepShape& shape);

// How often a step drafts each length from 1 on, of a chain whose length follows what is accepted
// near that context; of others their own alone. Where nobody counted the pair's tokens: its whole.
struct DraftedLength {
  Strategy strategy;  // that drafts so much
  double share = 1.0;
};
std::vector<DraftedLength> drafted_lengths(const Strategy& strategy, const FittedModel& fit,
                                           std::int64_t context_len);

void add_scaled(const StepCost& cost, double weight, StepCost& sum);
void scale_time(double factor, StepCost& cost);

// What all launches of a price share.
struct PricedOn {
  const HardwareSpec& hardware;
  const CostParameters& parameters;
  const RunConditions& conditions;
};

class StepSink {
 public:
  virtual ~StepSink() = default;
  // Launches that a step has `weight` times, their times multiplied by `factor`.
  virtual void take(const StepWork& work, double weight, double factor) = 0;
};

// A share of what is taken, into another sink.
class WeightedSink : public StepSink {
 public:
  WeightedSink(StepSink& sink, double share) : sink_(sink), share_(share) {}
  void take(const StepWork& work, double weight, double factor) override {
    sink_.take(work, weight * share_, factor);
  }

 private:
  StepSink& sink_;
  double share_;
};

class StepSum : public StepSink {
 public:
  explicit StepSum(const PricedOn& priced) : priced_(priced) {}
  void take(const StepWork& work, double weight, double factor) override;
  const StepCost& cost() const { return cost_; }

 private:
  PricedOn priced_;
  StepCost cost_;
};

class StepList : public StepSink {
 public:
  explicit StepList(const PricedOn& priced) : priced_(priced) {}
  void take(const StepWork& work, double weight, double factor) override;
  const std::vector<StepPart>& parts() const { return parts_; }

 private:
  PricedOn priced_;
  std::vector<StepPart> parts_;
};

}  // namespace versieve
