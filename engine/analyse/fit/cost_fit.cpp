#include "engine/analyse/fit/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/analyse/fit/acceptance_fit.h"
#include "engine/analyse/fit/apart_fit.h"
#include "engine/analyse/fit/batch_fit.h"
#include "engine/analyse/fit/context_ranges.h"
#include "engine/analyse/fit/energy_fit.h"
#include "engine/analyse/fit/error_tables.h"
#include "engine/analyse/fit/machine_prior.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/analyse/fit/system_fit.h"
#include "engine/analyse/fit/validation.h"
#include "model/words/error.h"
#include "model/words/normal_law.h"

namespace versieve::engine {
namespace {

constexpr int kIterations = 60;
constexpr int kPartIterations = 5;  // from a fit to all points that to a part of them is not far
constexpr int kFolds = 5;

bool is_quoted(const FitPoint& p, const FittedModel& model) {
  return p.key.workload == WorkloadKind::kStep && p.time_us &&
         p.conditions.launch == model.conditions.launch &&
         p.conditions.warm == model.conditions.warm;
}

MeasuredStep quoted(const FitPoint& p, const Prediction& prediction) {
  return measured_step(p, target_name(p.key.model), prediction.time_us);
}

class Fit {
 public:
  Fit(FitPoints points, const HardwareSpec& hardware, const FitOptions& options, FitParts& parts)
      : all_(std::move(points)), hardware_(hardware), options_(options), parts_(parts) {
    for (const FitPoint& p : all_.points) {
      (p.held_out ? held_ : train_).push_back(&p);
    }
    for (const FitPoint& p : all_.watched) {
      train_.push_back(&p);
    }
    parts_.expect(1 + kFolds);
    for (const RegimeAxis axis : left_out_axes()) {
      parts_.expect(static_cast<std::int64_t>(values_to_leave_out(train_, axis).size()));
    }
  }

  FitReport run() {
    if (options_.prior != nullptr) {
      prior_ = calibration_of(*options_.prior);
    }
    calibration_ = prior_ ? corrected(train_, hardware_, *prior_)
                          : calibrate(train_, hardware_, initial_parameters(),
                                      {.iterations = kIterations, .threads = parts_.threads()});
    parts_.finish();
    report_.model.estimates = calibration_.estimates;
    report_.model.attention_time = calibration_.attention_time;
    report_.model.step_time = calibration_.step_time;
    const std::vector<Unseen> folds = predict_folds(train_, hardware_, part_fit(), kFolds, parts_);
    const std::vector<LeftOutRegime> regimes = left_out_regimes();
    conformal(folds, regimes);
    left_out_errors(regimes);
    compare_all();
    held_out_errors();
    const std::vector<Unseen> held = held_out_predictions();
    const CoverageTable covered = coverage_by_range(folds, held);
    report_.unseen_coverage_90 = covered.all;
    report_.coverage = covered.rows;
    ranking({&folds, &held});
    report_.by_regime = errors_by_regime(held_, hardware_, calibration_);
    report_.by_term = errors_by_launch(held_, hardware_, calibration_);
    measured_steps();
    measured_regimes();
    report_.points_train = static_cast<std::int64_t>(train_.size() - all_.watched.size());
    report_.points_holdout = static_cast<std::int64_t>(held_.size());
    report_.skipped = all_.skipped;
    return std::move(report_);
  }

 private:
  PartFit part_fit() const {
    return [this](const std::vector<const FitPoint*>& points) {
      return prior_ ? corrected(points, hardware_, *prior_)
                    : calibrate(points, hardware_, calibration_.values,
                                {.iterations = kPartIterations});
    };
  }

  using LogError = std::optional<double> (Unseen::*)() const;

  std::vector<RegimeAxis> left_out_axes() const {
    return options_.leave_out_regimes
               ? std::vector<RegimeAxis>{RegimeAxis::kContext, RegimeAxis::kQueries}
               : std::vector<RegimeAxis>{};
  }

  std::vector<LeftOutRegime> left_out_regimes() const {
    std::vector<LeftOutRegime> regimes;
    for (const RegimeAxis axis : left_out_axes()) {
      for (LeftOutRegime& r :
           predict_left_out(train_, held_, axis, hardware_, part_fit(), parts_)) {
        regimes.push_back(std::move(r));
      }
    }
    return regimes;
  }

  static std::optional<double> quantile_of(const std::vector<Unseen>& unseen, LogError error,
                                           std::optional<std::size_t> range) {
    std::vector<double> sample;
    for (const Unseen& u : unseen) {
      const std::optional<double> e = (u.*error)();
      if (e && (!range || context_range_of(u.point->key.context_len) == *range)) {
        sample.push_back(*e);
      }
    }
    if (range && sample.size() < kEnoughForRange) {
      return {};
    }
    return conformal_quantile(sample, 0.9);
  }

  // Points of regimes that were left out between measured ones; `except` names one to leave aside.
  static std::vector<Unseen> between(const std::vector<LeftOutRegime>& regimes,
                                     const LeftOutRegime* except, bool train_only) {
    std::vector<Unseen> out;
    for (const LeftOutRegime& r : regimes) {
      for (const Unseen& u : r.points) {
        if (!r.beyond && &r != except && !(train_only && u.point->held_out)) {
          out.push_back(u);
        }
      }
    }
    return out;
  }

  void conformal(const std::vector<Unseen>& folds, const std::vector<LeftOutRegime>& regimes) {
    const std::vector<Unseen> left_out = between(regimes, nullptr, true);
    const double all_latency = quantile_of(folds, &Unseen::log_latency_error, {}).value_or(0.0);
    const double all_dram = quantile_of(folds, &Unseen::log_dram_error, {}).value_or(0.0);
    const double all_left_out =
        quantile_of(left_out, &Unseen::log_latency_error, {}).value_or(2.0 * all_latency);
    for (std::size_t range = 0; range < kContextRanges.size(); ++range) {
      const auto here = [range](const Unseen& u) {
        return context_range_of(u.point->key.context_len) == range;
      };
      const std::int64_t count = std::count_if(folds.begin(), folds.end(), here);
      if (count > 0) {
        const double latency =
            quantile_of(folds, &Unseen::log_latency_error, range).value_or(all_latency);
        report_.model.errors.push_back(
            {kContextRanges[range].low, kContextRanges[range].high, latency,
             quantile_of(folds, &Unseen::log_dram_error, range).value_or(all_dram), count,
             std::max(
                 latency,
                 quantile_of(left_out, &Unseen::log_latency_error, range).value_or(all_left_out))});
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

  // A regime's interval comes from the other regimes: its own errors are not known beforehand.
  void left_out_errors(const std::vector<LeftOutRegime>& regimes) {
    Errors latency;
    Errors dram;
    Coverage all;
    for (const LeftOutRegime& r : regimes) {
      Errors own_latency;
      Errors own_dram;
      Coverage own;
      const std::optional<double> width =
          quantile_of(between(regimes, &r, false), &Unseen::log_latency_error, {});
      for (const Unseen& u : r.points) {
        own_latency.add(u.prediction.time_us, u.point->time_us);
        own_dram.add(u.prediction.dram_bytes, judged_bytes(*u.point));
        own.add(u.log_latency_error(), width);
        if (!r.beyond) {
          latency.add(u.prediction.time_us, u.point->time_us);
          dram.add(u.prediction.dram_bytes, judged_bytes(*u.point));
          all.add(u.log_latency_error(), width);
        }
      }
      report_.left_out.push_back({r.axis == RegimeAxis::kContext ? "context" : "queries", r.value,
                                  r.beyond, own_latency.summary(), own_dram.summary(),
                                  own.share()});
    }
    report_.left_out_latency = latency.summary();
    report_.left_out_dram = dram.summary();
    report_.left_out_coverage_90 = all.share();
  }

  void compare_all() {
    for (const FitPoint& p : all_.points) {
      const Prediction predicted = predict(p, hardware_, calibration_);
      report_.compared.push_back({p.key, p.held_out, p.time_us, p.dram_bytes, p.read_bytes,
                                  predicted.time_us, predicted.closed_form_us, predicted.dram_bytes,
                                  predicted.read_bytes});
    }
  }

  void held_out_errors() {
    Errors latency;
    Errors closed;
    Errors dram;
    Errors read;
    Errors fused;
    Errors vanilla;
    Errors warm;
    std::vector<double> few;
    Coverage all;
    for (const ComparedPoint& p : report_.compared) {
      if (!p.held_out) {
        continue;
      }
      latency.add(p.predicted_us, p.measured_us);
      closed.add(p.closed_form_us, p.measured_us);
      if (p.measured_bytes && *p.measured_bytes < kLeastJudgedBytes) {
        few.push_back(std::abs(p.predicted_bytes - *p.measured_bytes));
      } else {
        dram.add(p.predicted_bytes, p.measured_bytes);
        read.add(p.predicted_read, p.measured_read);
        (Strategy::parse(p.key.strategy).form == NsaForm::kFused ? fused : vanilla)
            .add(p.predicted_bytes, p.measured_bytes);
        if (p.key.cache_state == CacheState::kWarm) {
          warm.add(p.predicted_bytes, p.measured_bytes);
        }
      }
      if (p.measured_us) {
        all.add(std::abs(std::log(p.predicted_us / *p.measured_us)), half_width(p.key.context_len));
      }
    }
    report_.latency = latency.summary();
    report_.closed_form_latency = closed.summary();
    report_.dram_bytes = dram.summary();
    report_.dram_read = read.summary();
    report_.dram_fused = fused.summary();
    report_.dram_vanilla = vanilla.summary();
    report_.dram_warm = warm.summary();
    report_.dram_few = static_cast<std::int64_t>(few.size());
    report_.dram_few_error = median(few);
    report_.interval_coverage_90 = all.share();
  }

  std::vector<Unseen> held_out_predictions() const {
    std::vector<Unseen> out;
    for (const FitPoint* p : held_) {
      out.push_back({p, predict(*p, hardware_, calibration_)});
    }
    return out;
  }

  void ranking(std::initializer_list<const std::vector<Unseen>*> unseen) {
    std::vector<RankedPoint> points;
    for (const std::vector<Unseen>* each : unseen) {
      for (const Unseen& u : *each) {
        if (u.point->time_us) {
          points.push_back({u.point->key, u.point->strategy.precision(), u.prediction.time_us,
                            *u.point->time_us, kNinety * u.point->time_log_error});
        }
      }
    }
    Ranking found = rank(points);
    report_.ranked = std::move(found.classes);
    report_.kendall_tau = found.tau;
    report_.least_kendall_tau = found.least_tau;
    report_.top1_regret = found.mean_regret;
    report_.worst_regret = found.worst_regret;
    report_.worst_choice = std::move(found.worst_choice);
  }

  // The steps that plans may quote: those of every target in the most frequent launch mode of the
  // target with most of them, whatever their drafts propose.
  void measured_steps() {
    std::map<std::pair<std::string, LaunchMode>, std::int64_t> counts;
    for (const FitPoint& p : all_.points) {
      counts[{target_name(p.key.model), p.conditions.launch}] +=
          p.key.workload == WorkloadKind::kStep ? 1000 : 1;  // steps decide where there are any
    }
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    FittedModel& m = report_.model;
    m.geometry = most->first.first;
    m.conditions = {.launch = most->first.second};
    for (const FitPoint& p : all_.points) {
      if (is_quoted(p, m)) {
        m.steps.push_back(quoted(p, predict(p, hardware_, calibration_)));
      }
    }
  }

  void measured_regimes() {
    std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t>, std::int64_t> counts;
    for (const FitPoint& p : all_.points) {
      counts[{name_of(p.key.workload), p.key.model, p.key.context_len, p.key.num_queries}] += 1;
    }
    for (const auto& [key, points] : counts) {
      report_.model.regimes.push_back(
          {std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key), points});
    }
  }

  FitPoints all_;
  const HardwareSpec& hardware_;
  const FitOptions& options_;
  FitParts& parts_;
  std::vector<const FitPoint*> train_, held_;
  std::optional<Calibration> prior_;
  Calibration calibration_;
  FitReport report_;
};

// The machine's rates against those of the prior's parameters.
PriorFit carried_prior(const FittedModel& prior, const HardwareSpec& machine, Dtype dtype,
                       const std::vector<std::string>& runs) {
  if (prior.dtype != dtype) {
    throw Error(ExitCode::kAnswerNo, "the prior is a fit to points of " + prior.device + " in " +
                                         name_of(prior.dtype) + ", these points are in " +
                                         name_of(dtype));
  }
  PriorFit out{prior.device, prior.points, prior.runs, rate_scale(machine, prior.machine)};
  if (prior.prior) {
    out.runs.insert(out.runs.end(), prior.prior->runs.begin(), prior.prior->runs.end());
    out.scale = out.scale.times(prior.prior->scale);
  }
  if (std::find_first_of(runs.begin(), runs.end(), out.runs.begin(), out.runs.end()) !=
      runs.end()) {
    throw Error(ExitCode::kAnswerNo,
                "the prior is a fit to runs that are among these: it knows what would be held out");
  }
  return out;
}

}  // namespace

FitReport fit_cost_model(const std::vector<PointMeasurement>& measured, const std::string& device,
                         const HardwareSpec& hardware, const std::vector<std::string>& runs,
                         const FitOptions& options) {
  if (!(options.holdout >= 0.0 && options.holdout < 1.0)) {
    throw Error(ExitCode::kUsage, "--holdout is a share of the points, from 0 to below 1");
  }
  FitPoints points = fit_points(measured, options.holdout);
  if (options.left_out != nullptr) {
    for (const auto& [reason, count] : *options.left_out) {
      points.skipped[reason] += count;
    }
  }
  const Dtype dtype = points.dtype;
  if (std::none_of(points.points.begin(), points.points.end(),
                   [](const FitPoint& p) { return !p.held_out; })) {
    std::string skipped;
    for (const auto& [reason, count] : points.skipped) {
      skipped += "; left out: " + std::to_string(count) + " points, " + reason;
    }
    throw Error(ExitCode::kAnswerNo, "there are no timed or counted attention or step points of '" +
                                         device + "' to fit to" + skipped);
  }
  const std::int64_t count = static_cast<std::int64_t>(points.points.size());
  HardwareSpec machine = measured_machine(hardware, measured, device, points.skipped);
  std::optional<PriorFit> prior;
  if (options.prior != nullptr) {
    prior = carried_prior(*options.prior, machine, dtype, runs);
    machine.scale = prior->scale;
  }
  const std::vector<FitPoint> apart = std::move(points.apart);
  FitParts parts(options.threads, options.goes_on);
  parts.expect(system_parts(measured, options.leave_out_regimes) + kApartParts +
               batch_parts(measured));
  FitReport report = Fit(std::move(points), machine, options, parts).run();
  report.holdout = options.holdout;
  report.model.device = device;
  report.model.hardware_key = hardware.key;
  report.model.dtype = dtype;
  report.model.points = count;
  report.model.runs = runs;
  report.model.prior = prior;
  fit_systems(measured, machine, options.prior, options.leave_out_regimes, parts, report);
  if (options.prior != nullptr) {
    report.model.small_pair_nodes = options.prior->small_pair_nodes;
  }
  fit_apart(apart, machine, parts, report);
  for (const FitPoint& p : apart) {
    if (is_quoted(p, report.model)) {
      report.model.steps.push_back(quoted(p, predict(p, machine, calibration_of(report.model))));
    }
  }
  fit_batches(measured, machine, options.prior, parts, report);
  fit_energy(measured, machine, report);
  report.model.acceptance = fit_acceptance(measured);
  // A tree yields the same on any machine: the prior's pair is one of those to choose among.
  if (options.prior != nullptr &&
      (report.model.acceptance.positional.empty() ||
       report.model.acceptance.measured.size() < options.prior->acceptance.measured.size())) {
    report.model.acceptance = options.prior->acceptance;
  }
  report.model.machine = machine_shares(machine);
  return report;
}

}  // namespace versieve::engine
