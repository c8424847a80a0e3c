#include "engine/fit/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/fit/acceptance_fit.h"
#include "engine/fit/context_ranges.h"
#include "engine/fit/cost_search.h"
#include "engine/fit/statistics.h"
#include "model/error.h"

namespace versieve::engine {
namespace {

constexpr int kIterations = 60;
constexpr int kFoldIterations = 12;
constexpr int kFolds = 5;
constexpr std::size_t kEnoughForRange = 20;  // points a range needs for a quantile of its own

struct Prediction {
  double time_us = 0.0;
  double dram_bytes = 0.0;
};

Prediction predict(const FitPoint& p, const HardwareSpec& hardware, const CostParameters& values) {
  const PointWork work =
      work_of(p, values[index_of(SharedParameter::kUniqueGrowth)], /*known=*/false);
  Prediction out{cost_of(work.timed, hardware, values, p.conditions).time_us};
  for (const KindCost& kind :
       cost_by_kind(work.observed, hardware, values, p.conditions, p.opened_share)) {
    out.dram_bytes += kind.dram_bytes;
  }
  return out;
}

CostParameters values_of(const std::vector<ParameterEstimate>& estimates) {
  CostParameters values;
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    values[i] = estimates[i].value;
  }
  return values;
}

// Collects ratios predicted / measured.
class Errors {
 public:
  void add(double predicted, std::optional<double> measured) {
    if (measured && *measured > 0.0) {
      ratios_.push_back(predicted / *measured - 1.0);
    }
  }

  ErrorSummary summary() const {
    std::vector<double> absolute;
    for (const double r : ratios_) {
      absolute.push_back(std::abs(r));
    }
    return {static_cast<std::int64_t>(ratios_.size()), median(absolute), quantile(absolute, 0.9),
            median(ratios_)};
  }

 private:
  std::vector<double> ratios_;
};

std::string query_class(std::int64_t queries) {
  if (queries <= 1) {
    return "1";
  }
  return queries <= 16 ? "2-16" : (queries <= 64 ? "17-64" : "65-256");
}

class Fit {
 public:
  Fit(FitPoints points, const HardwareSpec& hardware)
      : all_(std::move(points)), hardware_(hardware) {
    for (const FitPoint& p : all_.points) {
      (p.held_out ? held_ : train_).push_back(&p);
    }
  }

  FitReport run() {
    report_.model.estimates =
        search_parameters(train_, hardware_, initial_parameters(), kIterations);
    values_ = values_of(report_.model.estimates);
    conformal();
    held_out_errors();
    by_regime();
    by_term();
    ranking();
    measured_steps();
    report_.points_train = static_cast<std::int64_t>(train_.size());
    report_.points_holdout = static_cast<std::int64_t>(held_.size());
    report_.skipped = all_.skipped;
    return std::move(report_);
  }

 private:
  struct Miss {
    std::size_t range;
    std::optional<double> log_latency, log_dram;
  };

  Miss miss(const FitPoint& p, const CostParameters& values) const {
    const Prediction predicted = predict(p, hardware_, values);
    Miss m{context_range_of(p.key.context_len), {}, {}};
    if (p.time_us) {
      m.log_latency = std::abs(std::log(predicted.time_us / *p.time_us));
    }
    if (p.dram_bytes && *p.dram_bytes > 0.0) {
      m.log_dram = std::abs(std::log(predicted.dram_bytes / *p.dram_bytes));
    }
    return m;
  }

  // Each training point is predicted by a fit that has not seen it.
  std::vector<Miss> cross_validated() const {
    std::vector<Miss> misses;
    for (int fold = 0; fold < kFolds; ++fold) {
      std::vector<const FitPoint*> kept;
      std::vector<const FitPoint*> left_out;
      for (std::size_t i = 0; i < train_.size(); ++i) {
        (static_cast<int>(i) % kFolds == fold ? left_out : kept).push_back(train_[i]);
      }
      if (kept.empty()) {
        continue;
      }
      const CostParameters values =
          values_of(search_parameters(kept, hardware_, values_, kFoldIterations));
      for (const FitPoint* p : left_out) {
        misses.push_back(miss(*p, values));
      }
    }
    return misses;
  }

  static std::optional<double> quantile_of(const std::vector<Miss>& misses,
                                           std::optional<double> Miss::*field,
                                           std::optional<std::size_t> range) {
    std::vector<double> sample;
    for (const Miss& m : misses) {
      if ((!range || m.range == *range) && m.*field) {
        sample.push_back(*(m.*field));
      }
    }
    if (range && sample.size() < kEnoughForRange) {
      return {};
    }
    return conformal_quantile(sample, 0.9);
  }

  void conformal() {
    const std::vector<Miss> misses = cross_validated();
    const double all_latency = quantile_of(misses, &Miss::log_latency, {}).value_or(0.0);
    const double all_dram = quantile_of(misses, &Miss::log_dram, {}).value_or(0.0);
    for (std::size_t range = 0; range < kContextRanges.size(); ++range) {
      const auto here = [range](const Miss& m) { return m.range == range; };
      const std::int64_t count = std::count_if(misses.begin(), misses.end(), here);
      if (count > 0) {
        report_.model.errors.push_back(
            {kContextRanges[range].low, kContextRanges[range].high,
             quantile_of(misses, &Miss::log_latency, range).value_or(all_latency),
             quantile_of(misses, &Miss::log_dram, range).value_or(all_dram), count});
      }
    }
  }

  std::optional<double> half_width(std::int64_t context_len) const {
    for (const ErrorQuantile& q : report_.model.errors) {
      if (in_range(context_len, q.context_low, q.context_high)) {
        return q.log_latency;
      }
    }
    return {};
  }

  void held_out_errors() {
    Errors latency;
    Errors dram;
    double covered = 0.0;
    double judged = 0.0;
    for (const FitPoint* p : held_) {
      const Prediction predicted = predict(*p, hardware_, values_);
      latency.add(predicted.time_us, p->time_us);
      dram.add(predicted.dram_bytes, p->dram_bytes);
      const std::optional<double> width = half_width(p->key.context_len);
      if (p->time_us && width) {
        judged += 1.0;
        covered += std::abs(std::log(predicted.time_us / *p->time_us)) <= *width ? 1.0 : 0.0;
      }
    }
    report_.latency = latency.summary();
    report_.dram_bytes = dram.summary();
    if (judged > 0.0) {
      report_.interval_coverage_90 = covered / judged;
    }
  }

  void by_regime() {
    std::map<std::tuple<std::string, std::size_t, std::int64_t>, std::pair<Errors, Errors>> cells;
    std::map<std::tuple<std::string, std::size_t, std::int64_t>, std::string> queries;
    for (const FitPoint* p : held_) {
      const std::string name = query_class(p->key.num_queries);
      const std::int64_t order = name == "1" ? 0 : (name == "2-16" ? 1 : (name == "17-64" ? 2 : 3));
      const std::tuple key{std::string(name_of(p->key.workload)),
                           context_range_of(p->key.context_len), order};
      const Prediction predicted = predict(*p, hardware_, values_);
      cells[key].first.add(predicted.time_us, p->time_us);
      cells[key].second.add(predicted.dram_bytes, p->dram_bytes);
      queries[key] = name;
    }
    for (const auto& [key, errors] : cells) {
      report_.by_regime.push_back({std::get<0>(key), context_range_name(std::get<1>(key)),
                                   queries[key], errors.first.summary(), errors.second.summary()});
    }
  }

  void by_term() {
    std::array<TermError, kLaunchKindCount> rows;
    std::array<Errors, kLaunchKindCount> bytes;
    std::array<Errors, kLaunchKindCount> times;
    for (const FitPoint* p : held_) {
      const PointWork work =
          work_of(*p, values_[index_of(SharedParameter::kUniqueGrowth)], /*known=*/false);
      const auto kinds = cost_by_kind(work.observed, hardware_, values_, p->conditions, p->opened_share);
      for (const RangeObservation& range : p->ranges) {
        const std::size_t k = static_cast<std::size_t>(range.kind);
        times[k].add(kinds[k].time_us, range.time_us);
        bytes[k].add(kinds[k].dram_bytes, range.dram_bytes);
        if (range.dram_bytes) {
          rows[k].predicted_bytes += kinds[k].dram_bytes;
          rows[k].measured_bytes += *range.dram_bytes;
          for (std::size_t t = 0; t < kTrafficTermCount; ++t) {
            rows[k].predicted_by_term[t] += kinds[k].term_bytes[t];
          }
        }
      }
    }
    for (std::size_t k = 0; k < kLaunchKindCount; ++k) {
      rows[k].launch = name_of(static_cast<LaunchKind>(k));
      rows[k].dram_bytes = bytes[k].summary();
      rows[k].latency = times[k].summary();
      if (rows[k].dram_bytes.points + rows[k].latency.points > 0) {
        report_.by_term.push_back(rows[k]);
      }
    }
  }

  // Held-out points that a planner would choose between: equal but for the strategy. What they are
  // ranked by is verified queries a second; acceptance enters only the plan.
  void ranking() {
    std::map<std::string, std::vector<const FitPoint*>> groups;
    for (const FitPoint* p : held_) {
      PointKey key = p->key;
      key.strategy.clear();
      key.num_queries = 0;
      if (p->time_us) {
        groups[key_text(key)].push_back(p);
      }
    }
    double tau = 0.0;
    double regret = 0.0;
    double count = 0.0;
    for (const auto& [key, group] : groups) {
      std::vector<double> predicted;
      std::vector<double> measured;
      for (const FitPoint* p : group) {
        const double queries = static_cast<double>(p->key.num_queries);
        predicted.push_back(queries / predict(*p, hardware_, values_).time_us);
        measured.push_back(queries / *p->time_us);
      }
      const std::optional<double> agreement = kendall_tau(predicted, measured);
      if (agreement) {
        const std::size_t top = static_cast<std::size_t>(
            std::max_element(predicted.begin(), predicted.end()) - predicted.begin());
        tau += *agreement;
        regret += 1.0 - measured[top] / *std::max_element(measured.begin(), measured.end());
        count += 1.0;
      }
    }
    if (count > 0.0) {
      report_.kendall_tau = tau / count;
      report_.top1_regret = regret / count;
    }
  }

  // The steps that the planner may quote: those of the most frequent geometry and launch mode.
  void measured_steps() {
    std::map<std::pair<std::string, LaunchMode>, std::int64_t> counts;
    for (const FitPoint& p : all_.points) {
      counts[{p.key.model, p.conditions.launch}] +=
          p.key.workload == WorkloadKind::kStep ? 1000 : 1;  // steps decide where there are any
    }
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    FittedModel& m = report_.model;
    m.geometry = most->first.first;
    m.conditions = {CacheState::kCold, most->first.second};
    for (const FitPoint& p : all_.points) {
      if (p.key.workload == WorkloadKind::kStep && p.key.model == m.geometry &&
          p.conditions.launch == m.conditions.launch && p.conditions.cache == m.conditions.cache &&
          p.time_us) {
        m.steps.push_back({p.strategy, p.key.context_len, *p.time_us, p.time_log_error,
                           predict(p, hardware_, values_).time_us, all_.evidence});
      }
    }
  }

  FitPoints all_;
  const HardwareSpec& hardware_;
  std::vector<const FitPoint*> train_, held_;
  CostParameters values_{};
  FitReport report_;
};

}  // namespace

FitReport fit_cost_model(const std::vector<PointMeasurement>& measured, const std::string& device,
                         const HardwareSpec& hardware, const std::vector<std::string>& runs,
                         const FitOptions& options) {
  if (!(options.holdout >= 0.0 && options.holdout < 1.0)) {
    throw Error(ExitCode::kUsage, "--holdout is a share of the points, from 0 to below 1");
  }
  FitPoints points = fit_points(measured, options.holdout);
  const Provenance evidence = points.evidence;
  const std::string dtype = points.dtype;
  if (std::none_of(points.points.begin(), points.points.end(),
                   [](const FitPoint& p) { return !p.held_out; })) {
    throw Error(ExitCode::kAnswerNo, "there are no timed or counted attention or step points of '" +
                                         device + "' to fit to");
  }
  const std::int64_t count = static_cast<std::int64_t>(points.points.size());
  FitReport report = Fit(std::move(points), hardware).run();
  report.holdout = options.holdout;
  report.model.device = device;
  report.model.hardware_key = hardware.key;
  report.model.dtype = dtype;
  report.model.evidence = evidence;
  report.model.points = count;
  report.model.runs = runs;
  report.model.acceptance = fit_acceptance(measured);
  return report;
}

}  // namespace versieve::engine
