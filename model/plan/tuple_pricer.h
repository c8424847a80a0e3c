// What one tuple costs and yields in one range of contexts: the fit's prediction, corrected by
// measured steps of the same launches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/cost/accepted_tokens.h"
#include "model/plan/composed_step.h"
#include "model/plan/composed_tuples.h"
#include "model/plan/planner.h"
#include "model/plan/request_intervals.h"
#include "model/words/normal_law.h"

namespace versieve {

// Whether a step measured with that strategy is a step of this one, priced in that form. With
// groups of one query the traversal order changes no launch.
bool same_launches(Strategy measured, const Strategy& strategy, NsaForm form);
// Whether it was measured of that target, with a draft of as many tokens. A plain step has none.
bool same_models(const MeasuredStep& measured, const LlmShape& target, const DraftShape& draft);

class Pricer {
 public:
  // `requests`: that intervals are of. `concurrency`: requests of every step.
  Pricer(const FittedModel& fit, const HardwareSpec& hardware, const LlmShape& target,
         const DraftShape& draft, std::int64_t requests = kUsualRequests,
         std::int64_t concurrency = 1);

  // By the fit alone: no measured step corrects it.
  // A chain whose length follows what is accepted is the mean over its lengths.
  StepCost predict(const Strategy& strategy, std::int64_t context, double overlap) const;
  std::vector<StepPart> parts(const Strategy& strategy, std::int64_t context, double overlap) const;
  void compose(const Strategy& strategy, std::int64_t context, double overlap,
               StepSink& sink) const;

  // What depends on no machine: of a tuple, by what `known` holds of it, and of one step.
  ComposedTuple composed(const Strategy& strategy, const ContextBucket& bucket,
                         ComposedTuples& known) const;
  std::shared_ptr<ComposedStep> composed(const Strategy& strategy, std::int64_t context,
                                         double overlap) const;
  // The mean over the sampled contexts. `times_us`: of each.
  StepCost cost_of(const ComposedTuple& tuple, std::span<double, kBucketSamples> times_us) const;
  // What evaluate composes is kept there, and taken from there. Keeps a reference.
  void keep_in(ComposedTuples& composed) {
    kept_ = &composed;
    machine_ = composed.new_machine();
  }

  Evaluation evaluate(const Strategy& strategy, const ContextBucket& bucket,
                      std::string& note) const;

  // Buckets that begin beyond the longest measured context, and trees of more nodes than any
  // measured, lie outside the data.
  std::string bucket_outside_because(const ContextBucket& bucket) const;
  bool is_measured_width(const Strategy& strategy, const ContextBucket& bucket) const;
  double log_error(const ContextBucket& bucket) const;  // standard deviation of log latency

  bool scaled() const { return scaled_; }
  bool calibrated() const { return calibrated_; }
  const RateScale& scale() const { return hardware_.scale; }
  // Half-width of log latency that another machine than the fit's adds.
  double transfer_width() const { return carried_half_width_; }
  double system_transfer_width() const { return carried_system_half_width_; }  // of the others
  double batch_transfer_width() const { return carried_batch_half_width_; }    // of many requests
  NsaForm form() const { return form_; }
  const DraftShape& draft() const { return draft_; }
  std::int64_t requests() const { return requests_; }  // that intervals are of
  std::int64_t concurrency() const { return concurrency_; }
  // Of log step time of several requests, where a step of one has `of_one`. `as_batched`: of a step
  // that the batched engine runs on such a target, as measured points are; of others only their
  // number adds to what one has.
  double with_batch_error(double of_one, std::int64_t nodes, AttentionKind target,
                          bool as_batched) const;
  // The same of what this tuple's groups share (batch_error.h), on top.
  double sharing_error(const Strategy& strategy, const ContextBucket& bucket) const;

 private:
  // Predicted and measured latencies of one tuple in one range.
  struct Latency {
    StepCost cost;
    TimeErrors error;
    Provenance source = Provenance::kPredicted;
    bool other_order = false;  // ComposedTuple::other_order, unless its very launches were timed
  };

  PricedOn priced() const { return {hardware_, parameters_, fit_.conditions}; }
  // The factor on the time of its launches.
  double compose_length(const Strategy& strategy, std::int64_t context, double overlap,
                        StepWork& work) const;
  Evaluation evaluate(const Strategy& strategy, const ContextBucket& bucket,
                      const ComposedTuple& tuple, std::string& note) const;
  Latency latency_of(const Strategy& strategy, const ContextBucket& bucket,
                     const ComposedTuple& tuple) const;
  void apply_measured(const Strategy& strategy, const ContextBucket& bucket, Latency& out) const;

  const FittedModel& fit_;
  HardwareSpec hardware_;
  const LlmShape& target_;
  DraftShape draft_;
  CostParameters parameters_;
  NsaForm form_;
  bool scaled_;
  bool calibrated_;  // scaled by what was measured there
  double carried_half_width_;
  double carried_system_half_width_;
  double carried_batch_half_width_;
  bool is_small_pair_;  // steps of others say little of its steps
  std::int64_t requests_;
  std::int64_t concurrency_;
  double measured_rows_ = 1.0;  // nodes of the largest step that was measured
  // By the ends of a range; each remembers what it was asked.
  mutable std::map<std::pair<std::int64_t, std::int64_t>, TokensInRange> tokens_;
  ComposedTuples* kept_ = nullptr;
  std::int64_t machine_ = 1;  // to kept_, or to what is composed for one question
};

}  // namespace versieve
