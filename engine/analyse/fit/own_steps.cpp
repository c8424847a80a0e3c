#include "engine/analyse/fit/own_steps.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/analyse/fit/statistics.h"
#include "model/plan/composed_step.h"
#include "model/plan/tuple_pricer.h"

namespace versieve::engine {
namespace {

constexpr std::size_t kFolds = 5;
// Plain steps are a family of their own, measured at each context once.
constexpr std::size_t kFewest = 2;
constexpr std::size_t kEnoughForWidth = 10;

ResidualField field_of(const std::vector<const OwnStep*>& steps) {
  std::vector<Residual> residuals;
  for (const OwnStep* step : steps) {
    residuals.push_back(step->residual);
  }
  return fit_residual_field(residuals, kFewest);
}

bool is_learned(const OwnStep& step, const ResidualField& field) {
  return std::any_of(field.families.begin(), field.families.end(),
                     [&step](const ResidualField::Family& family) {
                       return family.family == step.residual.regime.family;
                     });
}

// |log(predicted / measured)| of every step by what the other folds say, where they say anything.
// A fold has all contexts of its tuples: a plan asks about tuples that nobody ran.
std::vector<double> unseen_errors(const std::vector<OwnStep>& steps) {
  std::set<std::string> tuples;
  for (const OwnStep& step : steps) {
    tuples.insert(step.tuple);
  }
  std::vector<double> errors;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<const OwnStep*> kept, left_out;
    for (const OwnStep& step : steps) {
      const auto place = std::distance(tuples.begin(), tuples.find(step.tuple));
      (static_cast<std::size_t>(place) % kFolds == fold ? left_out : kept).push_back(&step);
    }
    const ResidualField field = field_of(kept);
    for (const OwnStep* step : left_out) {
      if (is_learned(*step, field)) {
        errors.push_back(std::abs(step->residual.log_ratio - field.at(step->residual.regime)));
      }
    }
  }
  return errors;
}

void set_width(const std::vector<OwnStep>& steps, FittedModel& fit) {
  const std::optional<double> width = unseen_width(steps);
  if (!width) {
    return;
  }
  for (ErrorQuantile& q : fit.errors) {
    const bool measured = std::any_of(steps.begin(), steps.end(), [&q](const OwnStep& step) {
      return in_range(step.context_len, q.context_low, q.context_high);
    });
    if (measured) {
      q.log_latency = *width;
      q.log_latency_left_out = std::max(q.log_latency_left_out, *width);
    }
  }
}

}  // namespace

ResidualField field_of_steps(const std::vector<OwnStep>& steps) {
  std::vector<const OwnStep*> all;
  for (const OwnStep& step : steps) {
    all.push_back(&step);
  }
  return field_of(all);
}

std::optional<double> unseen_width(const std::vector<OwnStep>& steps) {
  const std::vector<double> errors = unseen_errors(steps);
  return errors.size() < kEnoughForWidth ? std::nullopt : conformal_quantile(errors, 0.9);
}

ResidualField learn_own_steps(const std::vector<OwnStep>& steps, FittedModel& fit) {
  set_width(steps, fit);
  ResidualField field = field_of_steps(steps);
  append(field, fit.step_time);
  return field;
}

std::int64_t use_own_steps(const LlmShape& target, const DraftShape& draft, FittedModel& fit) {
  std::vector<MeasuredStep*> own;
  std::vector<OwnStep> steps;
  const double planned = fit.temperature;
  for (MeasuredStep& m : fit.steps) {
    fit.temperature = m.temperature;  // it drew its tokens as it did, whatever is planned for
    // Steps of the other form launch other kernels: what is missed of them says nothing here.
    if (m.strategy.attention == AttentionMethod::kNsa && same_models(m, target, draft) &&
        m.strategy.form == fit.priced_form()) {
      const StepShape shape = step_shape(m.strategy, target, draft, m.context_len, m.overlap, fit);
      own.push_back(&m);
      steps.push_back({{step_regime(shape), std::log(m.time_us / m.predicted_us)},
                       m.strategy.text(),
                       m.context_len});
    }
  }
  fit.temperature = planned;
  if (steps.empty()) {
    return 0;
  }
  const ResidualField field = learn_own_steps(steps, fit);
  for (std::size_t i = 0; i < own.size(); ++i) {
    own[i]->predicted_us *= std::exp(field.at(steps[i].residual.regime));
  }
  return static_cast<std::int64_t>(steps.size());
}

}  // namespace versieve::engine
