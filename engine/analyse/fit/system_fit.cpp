#include "engine/analyse/fit/system_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "engine/analyse/fit/cost_search.h"
#include "engine/analyse/fit/error_tables.h"
#include "engine/analyse/fit/residual_fit.h"
#include "engine/analyse/fit/sparse_terms.h"
#include "engine/analyse/fit/system_points.h"
#include "engine/analyse/fit/system_predictor.h"

namespace versieve::engine {
namespace {

constexpr int kIterations = 60, kFoldIterations = 8, kFolds = 5;
constexpr std::size_t kEnough = 8;  // points that a quantile of their own needs

using Points = std::vector<const FitPoint*>;

struct SystemModel {
  std::vector<ParameterEstimate> estimates;
  CostParameters values{};
  ResidualField field;
};

double time_of(const StepWork& work, const FitPoint& p, const HardwareSpec& hardware,
               const SystemModel& model) {
  return cost_of(work, hardware, model.values, p.conditions).time_us;
}

bool is_whole_step(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kStep || p.key.workload == WorkloadKind::kRectifiedStep;
}
bool is_composite(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kRectifiedStep || p.strategy.drafts_itself;
}

double predicted_us(const FitPoint& p, const HardwareSpec& hardware, const SystemModel& model) {
  return predict_system(p, hardware, model.values, model.field).time_us;
}

// Periods, and steps of a target that drafts for itself, after the steps that they are made of.
void add_step_residuals(const Points& points, const HardwareSpec& hardware, SystemModel& model) {
  for (const bool is_made_of_steps : {false, true}) {
    std::vector<Residual> residuals;
    for (const FitPoint* p : points) {
      if (is_whole_step(*p) && p->time_us && is_composite(*p) == is_made_of_steps) {
        residuals.push_back(
            {whole_step_regime(*p), std::log(*p->time_us / predicted_us(*p, hardware, model))});
      }
    }
    append(fit_residual_field(residuals), model.field);
  }
}

// Of ReSA's phases, where each was a launch.
void add_vanilla_residuals(const Points& points, const HardwareSpec& hardware, SystemModel& model) {
  std::vector<Residual> residuals;
  for (const FitPoint* p : points) {
    if (!is_layer(*p) || !p->shape.dense.vanilla) {
      continue;
    }
    const KindCosts kinds =
        cost_by_kind(system_work(*p, model.field).observed, hardware, model.values, p->conditions);
    for (const RangeObservation& range : p->ranges) {
      const KindCost& cost = kinds[static_cast<std::size_t>(range.kind)];
      if (cost.present && range.time_us && is_resa_vanilla(range.kind)) {
        residuals.push_back(
            {vanilla_regime(p->shape, range.kind), std::log(*range.time_us / cost.time_us)});
      }
    }
  }
  append(fit_residual_field(residuals), model.field);
}

// Begun at the parameters `start`; what points say comes on top of the field `known`.
SystemModel fitted(const Points& points, const HardwareSpec& hardware, const KindSet& kinds,
                   const std::vector<ParameterEstimate>& start, const ResidualField& known,
                   Effort effort) {
  SystemModel model{.estimates = start, .field = known};
  if (std::find(kinds.begin(), kinds.end(), true) != kinds.end()) {
    search_kinds(points, hardware, kinds, effort, model.estimates);
  }
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    model.values[i] = model.estimates[i].value;
  }
  add_vanilla_residuals(points, hardware, model);
  std::vector<Residual> residuals;
  for (const FitPoint* p : points) {
    const std::optional<Regime> regime = system_regime(*p);
    if (regime && p->time_us) {
      const double us = time_of(system_work(*p, model.field).timed, *p, hardware, model);
      residuals.push_back({*regime, std::log(*p->time_us / us) - known.at(*regime)});
    }
  }
  append(fit_residual_field(residuals), model.field);
  add_step_residuals(points, hardware, model);
  return model;
}

struct Sample {
  std::string name;
  double log_error = 0.0;
  std::int64_t length = 0;
};

class SystemFit {
 public:
  SystemFit(const FitPoints& points, const HardwareSpec& hardware, bool leaves_out, FitParts& parts,
            FitReport& report)
      : points_(points.points),
        hardware_(hardware),
        leaves_out_(leaves_out),
        regimes_(term_regimes(points.points)),
        parts_(parts),
        report_(report) {
    for (std::size_t kind = 0; kind < kLaunchKindCount; ++kind) {
      kinds_[kind] = !report.model.informs(static_cast<LaunchKind>(kind));
    }
  }

  void run() {
    Points all;
    for (const FitPoint& p : points_) {
      all.push_back(&p);
    }
    known_ = report_.model.system_time;
    model_ = fitted(all, hardware_, kinds_, report_.model.estimates, known_,
                    {.iterations = kIterations, .threads = parts_.threads()});
    parts_.finish();
    judge(all);
    if (leaves_out_) {
      leave_out(all);
    }
    report_.sparse_terms = terms_.rows();
    FittedModel& m = report_.model;
    m.estimates = model_.estimates;
    m.system_time = model_.field;
    quantiles();
    steps(all);
    errors();
  }

 private:
  static int fold_of(const FitPoint& p) {
    const double digits = cell_hash(p.key) * 1000.0;
    return static_cast<int>((digits - std::floor(digits)) * kFolds);
  }

  // Every point by a fit to those of the other folds.
  void judge(const Points& all) {
    std::array<std::optional<SystemModel>, kFolds> without;
    parts_.run(kFolds, [&](std::int64_t fold) {
      Points kept;
      for (const FitPoint* p : all) {
        if (fold_of(*p) != fold) {
          kept.push_back(p);
        }
      }
      if (!kept.empty()) {
        without[static_cast<std::size_t>(fold)] = fitted(kept, hardware_, kinds_, model_.estimates,
                                                         known_, {.iterations = kFoldIterations});
      }
    });
    for (int fold = 0; fold < kFolds; ++fold) {
      for (const FitPoint* p : all) {
        if (fold_of(*p) == fold && without[static_cast<std::size_t>(fold)]) {
          judge(*p, *without[static_cast<std::size_t>(fold)]);
        }
      }
    }
  }

  // Every point of a whole value of an axis by a fit to those of the other values.
  void leave_out(const Points& all) {
    std::vector<SystemModel> without(regimes_.size());
    parts_.run(std::ssize(regimes_), [&](std::int64_t i) {
      const TermRegime& regime = regimes_[static_cast<std::size_t>(i)];
      Points kept;
      for (const FitPoint* p : all) {
        if (!regime.holds(*p)) {
          kept.push_back(p);
        }
      }
      without[static_cast<std::size_t>(i)] = fitted(kept, hardware_, kinds_, model_.estimates,
                                                    known_, {.iterations = kFoldIterations});
    });
    for (std::size_t i = 0; i < regimes_.size(); ++i) {
      for (const FitPoint* p : all) {
        if (regimes_[i].holds(*p)) {
          judge_terms(*p, without[i], &regimes_[i]);
        }
      }
    }
  }

  void judge_terms(const FitPoint& p, const SystemModel& model, const TermRegime* left_out) {
    if (regimes_.empty() || !is_sparse_point(p)) {
      return;
    }
    // What a whole layer misses is how its launches overlap: nothing of one launch's own time.
    terms_.add(
        p, predict_system(p, hardware_, model.values, model.field),
        cost_by_kind(system_work(p, model.field).observed, hardware_, model.values, p.conditions),
        left_out);
  }

  void judge(const FitPoint& p, const SystemModel& model) {
    judge_terms(p, model, nullptr);
    const std::string name = system_name(p);
    const KindCosts kinds =
        cost_by_kind(system_work(p, model.field).observed, hardware_, model.values, p.conditions);
    const SystemPrediction predicted = predict_system(p, hardware_, model.values, model.field);
    if (p.time_us) {
      latency_[name].add(predicted.time_us, p.time_us);
      all_latency_.add(predicted.time_us, p.time_us);
      samples_.push_back(
          {name, std::abs(std::log(predicted.time_us / *p.time_us)), p.key.context_len});
    }
    bytes_[name].add(predicted.dram_bytes, judged_bytes(p));
    all_bytes_.add(predicted.dram_bytes, judged_bytes(p));
    for (const RangeObservation& range : p.ranges) {
      judge(range, kinds[static_cast<std::size_t>(range.kind)]);
    }
  }

  void judge(const RangeObservation& range, const KindCost& cost) {
    const std::size_t k = static_cast<std::size_t>(range.kind);
    if (!cost.present || !kinds_[k]) {
      return;
    }
    range_time_[k].add(cost.time_us, range.time_us);
    if (!range.dram_bytes) {
      return;
    }
    if (*range.dram_bytes >= kLeastJudgedBytes) {
      range_bytes_[k].add(cost.dram_bytes, range.dram_bytes);
    }
    TermError& row = rows_[k];
    row.predicted_bytes += cost.dram_bytes;
    row.measured_bytes += *range.dram_bytes;
    for (std::size_t t = 0; t < kTrafficTermCount; ++t) {
      row.predicted_by_term[t] += cost.term_bytes[t];
    }
  }

  // A system of few points takes the quantile of its workload, of fewer still that of all; it
  // cannot promise less than its own worst.
  void quantiles() {
    std::map<std::string, std::vector<double>> own, by_workload;
    std::vector<double> all;
    std::map<std::string, std::int64_t> longest;
    for (const Sample& s : samples_) {
      all.push_back(s.log_error);
      own[s.name].push_back(s.log_error);
      by_workload[workload_of(s.name)].push_back(s.log_error);
      longest[s.name] = std::max(longest[s.name], s.length);
    }
    for (const auto& [name, errors] : own) {
      const std::vector<double>& near = by_workload[workload_of(name)];
      const std::vector<double>& sample =
          errors.size() >= kEnough ? errors : (near.size() >= kEnough ? near : all);
      const double width = std::max(
          conformal_quantile(sample, 0.9).value_or(0.0),
          errors.size() >= kEnough ? 0.0 : *std::max_element(errors.begin(), errors.end()));
      report_.model.systems.push_back(
          {name, width, static_cast<std::int64_t>(errors.size()), longest[name]});
    }
  }

  static std::string workload_of(const std::string& name) { return name.substr(0, name.find(' ')); }

  void steps(const Points& all) {
    for (const FitPoint* p : all) {
      if (p->key.workload == WorkloadKind::kStep && p->time_us) {
        report_.model.steps.push_back(
            measured_step(*p, target_name(p->key.model), predicted_us(*p, hardware_, model_)));
      }
    }
  }

  void errors() {
    for (const SystemQuantile& q : report_.model.systems) {
      report_.systems.push_back(
          {q.name, q.points, latency_[q.name].summary(), bytes_[q.name].summary(), q.log_latency});
    }
    report_.system_latency = all_latency_.summary();
    report_.system_dram = all_bytes_.summary();
    for (std::size_t k = 0; k < kLaunchKindCount; ++k) {
      rows_[k].launch = name_of(static_cast<LaunchKind>(k));
      rows_[k].dram_bytes = range_bytes_[k].summary();
      rows_[k].latency = range_time_[k].summary();
      if (rows_[k].dram_bytes.points + rows_[k].latency.points > 0) {
        report_.by_term.push_back(rows_[k]);
      }
    }
  }

  const std::vector<FitPoint>& points_;
  const HardwareSpec& hardware_;
  bool leaves_out_;
  std::vector<TermRegime> regimes_;  // empty: the terms were not measured apart
  FitParts& parts_;
  FitReport& report_;
  KindSet kinds_{};
  ResidualField known_;  // a prior's
  SystemModel model_;
  SparseTermErrors terms_;
  std::vector<Sample> samples_;
  std::map<std::string, Errors> latency_, bytes_;
  Errors all_latency_, all_bytes_;
  std::array<TermError, kLaunchKindCount> rows_;
  std::array<Errors, kLaunchKindCount> range_bytes_, range_time_;
};

// The systems of which no point was measured here.
void add_systems_of(const FittedModel& prior, const HardwareSpec& hardware, FittedModel& model) {
  const double further = prior.carried_system_half_width(hardware);
  for (SystemQuantile q : prior.systems) {
    if (model.system(q.name) == nullptr) {
      q.log_latency += further;
      model.systems.push_back(q);
    }
  }
}

}  // namespace

std::int64_t system_parts(const std::vector<PointMeasurement>& measured, bool leaves_out) {
  return kSystemParts + (leaves_out ? std::ssize(term_regimes(system_points(measured).points)) : 0);
}

void fit_systems(const std::vector<PointMeasurement>& measured, const HardwareSpec& hardware,
                 const FittedModel* prior, bool leaves_out, FitParts& parts, FitReport& report) {
  if (prior != nullptr) {
    report.model.system_time = prior->system_time;
  }
  const FitPoints points = system_points(measured);
  for (const auto& [reason, count] : points.skipped) {
    report.skipped[reason] += count;
  }
  if (!points.points.empty()) {
    SystemFit(points, hardware, leaves_out, parts, report).run();
  }
  if (prior != nullptr) {
    add_systems_of(*prior, hardware, report.model);
  }
}

}  // namespace versieve::engine
