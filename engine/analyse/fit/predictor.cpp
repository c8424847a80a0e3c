#include "engine/analyse/fit/predictor.h"

#include <cmath>

#include "engine/analyse/fit/cost_search.h"
#include "engine/analyse/fit/residual_fit.h"

namespace versieve::engine {
namespace {

bool is_step(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kStep;
}

bool is_warm(const FitPoint& p) {
  return p.conditions.warm;
}

PointWork bare_work(const FitPoint& p, const Calibration& c) {
  return work_of(p, c.values[index_of(SharedParameter::kUniqueGrowth)], /*known=*/false);
}

double time_of(const FitPoint& p, const PointWork& work, const HardwareSpec& hardware,
               const Calibration& c) {
  return cost_of(work.timed, hardware, c.values, p.conditions).time_us;
}

ResidualField attention_field(const std::vector<const FitPoint*>& points,
                              const HardwareSpec& hardware, const Calibration& c, int threads) {
  std::vector<Residual> residuals;
  for (const FitPoint* p : points) {
    if (p->time_us && !is_step(*p)) {
      const Regime regime = attention_regime(p->shape, p->reuse, is_warm(*p));
      residuals.push_back(
          {regime, std::log(*p->time_us / time_of(*p, bare_work(*p, c), hardware, c)) -
                       c.attention_time.at(regime)});
    }
  }
  return fit_residual_field(residuals, kFewestOfFamily, threads);
}

}  // namespace

Calibration calibration_of(const FittedModel& model) {
  return {.estimates = model.estimates,
          .values = model.parameters(),
          .attention_time = model.attention_time,
          .step_time = model.step_time};
}

Calibration calibrate(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware,
                      const CostParameters& start, Effort effort) {
  Calibration c;
  c.estimates = search_parameters(points, hardware, start, effort);
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    c.values[i] = c.estimates[i].value;
  }
  c.attention_time = attention_field(points, hardware, c, effort.threads);
  c.step_time = step_residuals(points, hardware, c);
  return c;
}

Calibration corrected(const std::vector<const FitPoint*>& points, const HardwareSpec& hardware,
                      const Calibration& prior) {
  Calibration c = prior;
  append(attention_field(points, hardware, c, 1), c.attention_time);
  append(step_residuals(points, hardware, c), c.step_time);
  return c;
}

ResidualField step_residuals(const std::vector<const FitPoint*>& points,
                             const HardwareSpec& hardware, const Calibration& c,
                             std::size_t fewest) {
  std::vector<Residual> residuals;
  for (const FitPoint* p : points) {
    if (p->time_us && is_step(*p)) {
      const Regime regime = step_regime(p->shape);
      residuals.push_back(
          {regime, std::log(*p->time_us / time_of(*p, planned_work(*p, c), hardware, c)) -
                       c.step_time.at(regime)});
    }
  }
  return fit_residual_field(residuals, fewest);
}

PointWork planned_work(const FitPoint& p, const Calibration& c) {
  PointWork work = bare_work(p, c);
  correct_attention(p.shape, is_warm(p), c.attention_time, work.timed);
  correct_attention(p.shape, is_warm(p), c.attention_time, work.observed);
  return work;
}

Prediction predict(const FitPoint& p, const HardwareSpec& hardware, const Calibration& c) {
  const PointWork bare = bare_work(p, c);
  Prediction out;
  out.closed_form_us = time_of(p, bare, hardware, c);
  if (is_step(p)) {
    out.time_us = time_of(p, planned_work(p, c), hardware, c) *
                  std::exp(c.step_time.at(step_regime(p.shape)));
  } else {
    out.time_us = out.closed_form_us *
                  std::exp(c.attention_time.at(attention_regime(p.shape, p.reuse, is_warm(p))));
  }
  for (const KindCost& kind : cost_by_kind(bare.observed, hardware, c.values, p.conditions)) {
    out.dram_bytes += kind.dram_bytes;
    out.read_bytes += kind.read_bytes;
  }
  return out;
}

}  // namespace versieve::engine
