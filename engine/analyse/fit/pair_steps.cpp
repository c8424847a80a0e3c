#include "engine/analyse/fit/pair_steps.h"

#include <algorithm>
#include <cmath>

#include "engine/analyse/fit/fit_points.h"
#include "engine/analyse/fit/own_steps.h"
#include "engine/analyse/fit/point_parts.h"
#include "engine/analyse/fit/predictor.h"
#include "model/launches/draft_levels.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Of the launches that a plan prices: others are measured to stand beside them.
bool is_planned(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kNsa && strategy.form == NsaForm::kFused;
}

bool is_of_fit(const PointMeasurement& m, const FittedModel& fit) {
  return m.key.workload == WorkloadKind::kStep && is_planned(Strategy::parse(m.key.strategy)) &&
         m.status == PointStatus::kOk && m.key.backend == Backend::kCuda &&
         m.key.dtype == fit.dtype && m.key.launch == fit.conditions.launch;
}

std::string unused_because(const PointMeasurement& m, const PlannedPair& pair) {
  if (m.reliability != Reliability::kOk) {
    return name_of(m.reliability);
  }
  const std::string reason = untold_because(m);
  return reason.empty() ? outdated_because(m, pair.target) : reason;
}

}  // namespace

std::int64_t use_pair_steps(const std::vector<PointMeasurement>& steps, const PlannedPair& pair,
                            FittedModel& fit, std::map<std::string, std::int64_t>* left_out) {
  std::vector<FitPoint> points;
  for (const PointMeasurement& m : steps) {
    VERSIEVE_ASSERT(m.key.pair == pair.sha256, "steps of one pair alone");
    if (!is_of_fit(m, fit)) {
      continue;
    }
    if (const std::string reason = unused_because(m, pair); !reason.empty()) {
      if (left_out != nullptr) {
        (*left_out)[reason] += 1;
      }
      continue;
    }
    FitPoint p = fit_point(m, pair.target, pair.draft);
    if (p.time_us) {
      points.push_back(std::move(p));
    }
  }
  if (points.empty()) {
    return 0;
  }
  std::sort(points.begin(), points.end(),
            [](const FitPoint& a, const FitPoint& b) { return key_text(a.key) < key_text(b.key); });
  const HardwareSpec hardware = fit.priced_on(hardware_by_key(fit.hardware_key));
  const Calibration c = calibration_of(fit);
  std::vector<OwnStep> own;
  std::vector<double> predicted_us;
  for (const FitPoint& p : points) {
    predicted_us.push_back(predict(p, hardware, c).time_us);
    own.push_back({{step_regime(p.shape), std::log(*p.time_us / predicted_us.back())},
                   p.strategy.text(),
                   p.key.context_len});
  }
  const ResidualField field = learn_own_steps(own, fit);
  fit.geometry = pair.target.name;
  fit.steps_pair = pair.sha256;
  fit.steps.clear();
  const bool is_small = is_small_pair(pair.draft, pair.target.vocab);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const FitPoint& p = points[i];
    fit.steps.push_back(measured_step(
        p, pair.target.name, predicted_us[i] * std::exp(field.at(own[i].residual.regime))));
    fit.regimes.push_back(
        {name_of(p.key.workload), pair.target.name, p.key.context_len, p.key.num_queries, 1});
    fit.small_pair_nodes =
        is_small ? std::max(fit.small_pair_nodes, p.strategy.draft.nodes) : fit.small_pair_nodes;
  }
  return static_cast<std::int64_t>(points.size());
}

}  // namespace versieve::engine
