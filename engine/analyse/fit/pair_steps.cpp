#include "engine/analyse/fit/pair_steps.h"

#include <algorithm>
#include <cmath>

#include "engine/analyse/fit/fit_points.h"
#include "engine/analyse/fit/own_steps.h"
#include "engine/analyse/fit/point_parts.h"
#include "engine/analyse/fit/predictor.h"
#include "engine/analyse/fit/system_points.h"
#include "engine/analyse/fit/system_predictor.h"
#include "model/launches/draft_levels.h"
#include "model/plan/system_grid.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

// Of the launches that a plan prices: others are measured to stand beside them.
bool is_planned(const Strategy& strategy, const LlmShape& target) {
  return (strategy.attention == AttentionMethod::kNsa) ==
             (target.attention == AttentionKind::kNsa) &&
         strategy.form == NsaForm::kFused;
}

bool is_of_fit(const PointMeasurement& m, const PlannedPair& pair, const FittedModel& fit) {
  return m.key.workload == WorkloadKind::kStep &&
         is_planned(Strategy::parse(m.key.strategy), pair.target) && m.status == PointStatus::kOk &&
         m.key.backend == Backend::kCuda && m.key.dtype == fit.dtype &&
         m.key.launch == fit.conditions.launch;
}

std::string unused_because(const PointMeasurement& m, const PlannedPair& pair) {
  if (m.reliability != Reliability::kOk) {
    return name_of(m.reliability);
  }
  const std::string reason = untold_because(m);
  return reason.empty() ? outdated_because(m, pair.target) : reason;
}

// What the pair's steps of that system need of a fit that has not seen their tuple takes the place
// of what the machine's steps needed; of a system that the machine has no steps of, no less than
// steps of which attention alone was measured.
void set_system_width(const std::string& name, const std::vector<OwnStep>& steps,
                      FittedModel& fit) {
  std::int64_t longest = 0;
  double worst = kUnmeasuredStep;
  for (const OwnStep& step : steps) {
    longest = std::max(longest, step.context_len);
    worst = std::max(worst, std::abs(step.residual.log_ratio));
  }
  const std::optional<double> width = unseen_width(steps);
  const auto known = std::find_if(fit.systems.begin(), fit.systems.end(),
                                  [&](const SystemQuantile& q) { return q.name == name; });
  const std::int64_t count = static_cast<std::int64_t>(steps.size());
  if (known == fit.systems.end()) {
    fit.systems.push_back({name, width.value_or(worst), count, longest});
  } else if (width) {
    *known = {name, *width, count, std::max(longest, known->longest)};
  }
}

// Points of one kind, by the fit to the other systems as it stands; what they miss of it is
// learned.
void learn_dense_steps(const std::vector<const FitPoint*>& points, const PlannedPair& pair,
                       const HardwareSpec& hardware, FittedModel& fit) {
  std::map<std::string, std::vector<OwnStep>> by_system;
  std::vector<OwnStep> own;
  std::vector<double> predicted_us;
  for (const FitPoint* p : points) {
    predicted_us.push_back(predict_system(*p, hardware, fit.parameters(), fit.system_time).time_us);
    own.push_back({{whole_step_regime(*p), std::log(*p->time_us / predicted_us.back())},
                   p->strategy.text(),
                   p->key.context_len});
    by_system[system_name(*p)].push_back(own.back());
  }
  const ResidualField field = field_of_steps(own);
  append(field, fit.system_time);
  for (const auto& [name, steps] : by_system) {
    set_system_width(name, steps, fit);
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    fit.steps.push_back(
        measured_step(*points[i], pair.target.name,
                      predicted_us[i] * std::exp(field.at(own[i].residual.regime))));
  }
}

// A dense target's: steps that draft for themselves after those that they are made of.
void learn_dense_steps(const std::vector<FitPoint>& points, const PlannedPair& pair,
                       const HardwareSpec& hardware, FittedModel& fit) {
  for (const bool drafts_itself : {false, true}) {
    std::vector<const FitPoint*> kind;
    for (const FitPoint& p : points) {
      if (p.strategy.drafts_itself == drafts_itself) {
        kind.push_back(&p);
      }
    }
    learn_dense_steps(kind, pair, hardware, fit);
  }
}

}  // namespace

std::int64_t use_pair_steps(const std::vector<PointMeasurement>& steps, const PlannedPair& pair,
                            FittedModel& fit, std::map<std::string, std::int64_t>* left_out) {
  const bool dense = pair.target.attention == AttentionKind::kDense;
  std::vector<FitPoint> points;
  for (const PointMeasurement& m : steps) {
    VERSIEVE_ASSERT(m.key.pair == pair.sha256, "steps of one pair alone");
    if (!is_of_fit(m, pair, fit)) {
      continue;
    }
    if (const std::string reason = unused_because(m, pair); !reason.empty()) {
      if (left_out != nullptr) {
        (*left_out)[reason] += 1;
      }
      continue;
    }
    FitPoint p =
        dense ? system_point(m, pair.target, pair.draft) : fit_point(m, pair.target, pair.draft);
    if (p.time_us) {
      points.push_back(std::move(p));
    }
  }
  if (points.empty()) {
    return 0;
  }
  std::sort(points.begin(), points.end(),
            [](const FitPoint& a, const FitPoint& b) { return key_text(a.key) < key_text(b.key); });
  fit.geometry = pair.target.name;
  fit.steps_pair = pair.sha256;
  fit.steps.clear();
  const HardwareSpec hardware = fit.priced_on(hardware_by_key(fit.hardware_key));
  if (dense) {
    learn_dense_steps(points, pair, hardware, fit);
    return static_cast<std::int64_t>(points.size());
  }
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
