#include "engine/analyse/fit/pair_steps.h"

#include <algorithm>
#include <cmath>

#include "engine/analyse/fit/fit_points.h"
#include "engine/analyse/fit/point_parts.h"
#include "engine/analyse/fit/predictor.h"
#include "engine/analyse/fit/residual_fit.h"
#include "engine/analyse/fit/statistics.h"
#include "model/launches/draft_levels.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

constexpr int kFolds = 5;
// Plain steps are a family of their own, measured at each context once.
constexpr std::size_t kFewestOfPair = 2;
constexpr std::size_t kEnoughForWidth = 10;

using Points = std::vector<const FitPoint*>;

// Of the launches that a plan prices: others are measured to stand beside them.
bool is_planned(const Strategy& strategy) {
  return strategy.attention == AttentionMethod::kNsa && strategy.form == NsaForm::kFused;
}

bool is_used(const PointMeasurement& m, const PlannedPair& pair, const FittedModel& fit) {
  return is_planned(Strategy::parse(m.key.strategy)) && m.key.workload == WorkloadKind::kStep &&
         m.status == PointStatus::kOk && m.reliability == Reliability::kOk &&
         m.key.backend == Backend::kCuda && m.key.dtype == fit.dtype &&
         m.key.launch == fit.conditions.launch && outdated_because(m, pair.target).empty();
}

// The fit's prediction and what these points say of it.
Calibration learned(const Points& points, const HardwareSpec& hardware, const FittedModel& fit) {
  Calibration c = calibration_of(fit);
  append(step_residuals(points, hardware, c, kFewestOfPair), c.step_time);
  return c;
}

bool is_learned(const FitPoint& p, const Points& kept) {
  const int family = step_regime(p.shape).family;
  return std::count_if(kept.begin(), kept.end(), [family](const FitPoint* other) {
           return step_regime(other->shape).family == family;
         }) >= static_cast<std::ptrdiff_t>(kFewestOfPair);
}

// |log(predicted / measured)| of every step by what the other folds' say, where they say anything.
std::vector<double> unseen_errors(const std::vector<FitPoint>& points, const HardwareSpec& hardware,
                                  const FittedModel& fit) {
  std::vector<double> errors;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    Points kept;
    Points left_out;
    for (std::size_t i = 0; i < points.size(); ++i) {
      (i % kFolds == fold ? left_out : kept).push_back(&points[i]);
    }
    const Calibration c = learned(kept, hardware, fit);
    for (const FitPoint* p : left_out) {
      if (!is_learned(*p, kept)) {
        continue;
      }
      errors.push_back(std::abs(std::log(predict(*p, hardware, c).time_us / *p->time_us)));
    }
  }
  return errors;
}

void widen(const std::vector<double>& errors, FittedModel& fit) {
  const std::optional<double> width = conformal_quantile(errors, 0.9);
  if (errors.size() < kEnoughForWidth || !width) {
    return;
  }
  for (ErrorQuantile& q : fit.errors) {
    q.log_latency = *width;
    q.log_latency_left_out = std::max(q.log_latency_left_out, *width);
  }
}

}  // namespace

std::int64_t use_pair_steps(const std::vector<PointMeasurement>& steps, const PlannedPair& pair,
                            FittedModel& fit) {
  std::vector<FitPoint> points;
  for (const PointMeasurement& m : steps) {
    VERSIEVE_ASSERT(m.key.pair == pair.sha256, "steps of one pair alone");
    if (is_used(m, pair, fit)) {
      FitPoint p = fit_point(m, pair.target, pair.draft);
      if (p.time_us) {
        points.push_back(std::move(p));
      }
    }
  }
  if (points.empty()) {
    return 0;
  }
  std::sort(points.begin(), points.end(),
            [](const FitPoint& a, const FitPoint& b) { return key_text(a.key) < key_text(b.key); });
  const HardwareSpec hardware = fit.priced_on(hardware_by_key(fit.hardware_key));
  widen(unseen_errors(points, hardware, fit), fit);
  Points all;
  for (const FitPoint& p : points) {
    all.push_back(&p);
  }
  const Calibration c = learned(all, hardware, fit);
  fit.step_time = c.step_time;
  fit.geometry = pair.target.name;
  fit.steps_pair = pair.sha256;
  fit.steps.clear();
  const bool is_small = is_small_pair(pair.draft, pair.target.vocab);
  for (const FitPoint& p : points) {
    fit.steps.push_back({p.strategy, p.key.context_len, *p.time_us, p.time_log_error,
                         predict(p, hardware, c).time_us, Provenance::kMeasured,
                         pair.draft.vocab < pair.target.vocab ? pair.draft.vocab : 0});
    fit.regimes.push_back(
        {name_of(p.key.workload), pair.target.name, p.key.context_len, p.key.num_queries, 1});
    fit.small_pair_nodes =
        is_small ? std::max(fit.small_pair_nodes, p.strategy.draft.nodes) : fit.small_pair_nodes;
  }
  return static_cast<std::int64_t>(points.size());
}

}  // namespace versieve::engine
