#include "model/plan/composed_step.h"

#include <cmath>

#include "model/cost/adapted_chain.h"
#include "model/cost/batch_fit.h"
#include "model/launches/step_shape.h"

namespace versieve {

StepShape step_shape(const Strategy& strategy, const LlmShape& target, const DraftShape& draft,
                     std::int64_t context_len, double overlap, const FittedModel& fit,
                     std::int64_t requests) {
  StepShape shape = asked_step(strategy, target, draft, context_len, bytes_of(fit.dtype));
  shape.overlap = overlap;
  share_in_order(fit, strategy.order, shape);
  shape.form = fit.priced_form();
  const double temperature = strategy.sampling ? 1.0 : fit.temperature;
  shape.sampling = sampling_at(strategy, temperature);
  shape.requests = requests;
  const bool batched = runs_as_measured(fit, shape);
  const bool dense = target.attention == AttentionKind::kDense;
  shape.together = !batched ? 0 : dense ? fit.batch.dense_together : fit.batch.together;
  const LaunchMode launch = batched ? fit.batch.launch : fit.conditions.launch;
  shape.recorded = launch == LaunchMode::kGraph && !is_led_by_host(strategy, temperature);
  shape.one_launch = requests == 1 && fit.prices_one_launch(strategy, target, context_len);
  return shape;
}

bool runs_as_measured(const FittedModel& fit, const StepShape& shape) {
  return shape.requests > 1 && fit.batch.measured(shape.target.attention);
}

double as_measured(const FittedModel& fit, const StepShape& shape, StepWork& work) {
  apply_batch(fit.batch.values(), fit.batch.kinds, shape, work);
  return std::exp(fit.batch.time.at(batch_regime(shape)));
}

std::vector<DraftedLength> drafted_lengths(const Strategy& strategy, const FittedModel& fit,
                                           std::int64_t context_len) {
  if (!strategy.adapts_length || strategy.drafts_itself || fit.acceptance.positional.empty()) {
    return {{strategy, 1.0}};
  }
  const std::vector<double> share =
      adapted_lengths(fit.acceptance, strategy, context_len - 1, context_len);
  std::vector<DraftedLength> out;
  for (std::size_t i = 0; i < share.size(); ++i) {
    Strategy s = strategy;
    s.draft = chain_of(static_cast<std::int64_t>(i) + 1);
    out.push_back({s, share[i]});
  }
  return out;
}

void share_in_order(const FittedModel& fit, Traversal order, StepShape& shape) {
  if (shape.group_size == 1 || fit.acceptance.positional.empty()) {
    return;
  }
  const AcceptedSharing sharing =
      accepted_sharing(fit.acceptance, order, shape.context_len - 1, shape.context_len);
  shape.group_overlap = sharing.order.overlap;
  shape.group_share = sharing.order.group;
}

void add_scaled(const StepCost& cost, double weight, StepCost& sum) {
  sum.time_us += weight * cost.time_us;
  sum.dram_bytes += weight * cost.dram_bytes;
  sum.flops += weight * cost.flops;
  sum.launches += weight * cost.launches;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    sum.phase_us[i] += weight * cost.phase_us[i];
  }
  for (std::size_t i = 0; i < kBoundCount; ++i) {
    sum.bound_us[i] += weight * cost.bound_us[i];
  }
  for (std::size_t i = 0; i < kTrafficTermCount; ++i) {
    sum.term_bytes[i] += weight * cost.term_bytes[i];
  }
}

void scale_time(double factor, StepCost& cost) {
  cost.time_us *= factor;
  for (double& us : cost.phase_us) {
    us *= factor;
  }
  for (double& us : cost.bound_us) {
    us *= factor;
  }
}

void StepSum::take(const StepWork& work, double weight, double factor) {
  StepCost cost = cost_of(work, priced_.hardware, priced_.parameters, priced_.conditions);
  scale_time(factor, cost);
  add_scaled(cost, weight, cost_);
}

void StepList::take(const StepWork& work, double weight, double factor) {
  add_parts(work, priced_.hardware, priced_.parameters, priced_.conditions, weight, factor, parts_);
}

}  // namespace versieve
