#include "engine/analyse/fit/carry_over.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/analyse/fit/batch_fit.h"
#include "engine/analyse/fit/error_json.h"
#include "engine/analyse/fit/error_tables.h"
#include "engine/analyse/fit/machine_prior.h"
#include "engine/analyse/fit/predictor.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/analyse/fit/system_points.h"
#include "engine/analyse/fit/system_predictor.h"
#include "engine/io/formatted.h"
#include "model/words/error.h"
#include "model/words/normal_law.h"

namespace versieve::engine {
namespace {

struct Kind {
  const char* name;
  bool (*takes)(const FitPoint& point);
};

bool is_step(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kStep;
}
bool is_warm(const FitPoint& p) {
  return p.conditions.warm;
}

constexpr Kind kKinds[] = {
    {"attention, cold", [](const FitPoint& p) { return !is_step(p) && !is_warm(p); }},
    {"attention, warm", [](const FitPoint& p) { return !is_step(p) && is_warm(p); }},
    {"steps", [](const FitPoint& p) { return is_step(p); }},
    {"all", [](const FitPoint&) { return true; }},
};

// Whether points taught the fit the launches of that one.
bool knows_launches_of(const FittedModel& model, const FitPoint& p) {
  return p.shape.form == NsaForm::kVanilla
             ? model.informs(LaunchKind::kNsaSelected)
             : model.informs(LaunchKind::kNsaAttend) || model.informs(LaunchKind::kNsaReuse);
}

// Errors in log latency against the half-widths that held them at home.
class WidthJudge {
 public:
  explicit WidthJudge(double added) : added_(added) {}

  void add(double predicted_us, double measured_us, double home) {
    const double error = std::abs(std::log(predicted_us / measured_us));
    covered_.add(error, home + added_);
    beyond_.push_back(error - home);
  }
  WidthVerdict judged() const {
    WidthVerdict out{.added = added_, .covered_90 = covered_.share()};
    if (const std::optional<double> needed = quantile(beyond_, 0.9)) {
      out.needed = std::max(0.0, *needed);
    }
    return out;
  }

 private:
  double added_;
  Coverage covered_;
  std::vector<double> beyond_;  // how much wider than at home each point's interval had to be
};

// What was predicted of points, against what was measured: by rows of a table, and as intervals.
class CarryJudge {
 public:
  explicit CarryJudge(double added) : width_(added) {}

  // `home`: the half-width of log latency that held such points on the fit's own machine.
  void add(const std::vector<std::string>& rows, double time_us, double dram_bytes,
           const FitPoint& p, double home) {
    for (const std::string& row : rows) {
      rows_[row].first.add(time_us, p.time_us);
      rows_[row].second.add(dram_bytes, judged_bytes(p));
    }
    if (p.time_us) {
      width_.add(time_us, *p.time_us, home);
    }
  }
  // Of the rows that have a timed point, in that order.
  std::vector<CarriedErrors> errors(const std::vector<std::string>& order) const {
    std::vector<CarriedErrors> out;
    for (const std::string& row : order) {
      const auto found = rows_.find(row);
      if (found != rows_.end() && found->second.first.summary().points > 0) {
        out.push_back({row, found->second.first.summary(), found->second.second.summary()});
      }
    }
    return out;
  }
  std::vector<std::string> rows() const {
    std::vector<std::string> names;
    for (const auto& [name, errors] : rows_) {
      names.push_back(name);
    }
    return names;
  }
  WidthVerdict width() const { return width_.judged(); }

 private:
  std::map<std::string, std::pair<Errors, Errors>> rows_;  // of latency, of bytes
  WidthJudge width_;
};

// The points of the other systems, which the fit knows by name.
void judge_systems(const FittedModel& model, const HardwareSpec& hardware,
                   const std::vector<FitPoint>& points, CarriedFit& out) {
  const HardwareSpec priced = model.priced_on(hardware);
  const CostParameters values = model.parameters();
  const std::string all = "other systems";
  CarryJudge judge(model.carried_system_half_width(hardware));
  for (const FitPoint& p : points) {
    const std::string name = system_name(p);
    const SystemPrediction predicted = predict_system(p, priced, values, model.system_time);
    judge.add({name, all}, predicted.time_us, predicted.dram_bytes, p,
              model.system(name)->log_latency);
  }
  std::vector<std::string> order = judge.rows();
  std::stable_partition(order.begin(), order.end(),
                        [&](const std::string& row) { return row != all; });
  out.systems = judge.errors(order);
  out.system_width = judge.width();
}

// Steps of many requests, by how many.
void judge_batches(const FittedModel& model, const HardwareSpec& hardware,
                   const std::vector<BatchPoint>& points, CarriedFit& out) {
  const HardwareSpec priced = model.priced_on(hardware);
  CarryJudge judge(model.carried_batch_half_width(hardware));
  const std::string all = "many requests";
  std::set<std::int64_t> numbers;
  const auto row = [](std::int64_t requests) { return "requests " + std::to_string(requests); };
  for (const BatchPoint& p : points) {
    const BatchPrediction predicted = predict_batch(p, priced, model);
    numbers.insert(p.requests);
    judge.add({row(p.requests), all}, predicted.time_us, predicted.dram_bytes, p.point,
              model.batch.width_of(p.requests));
  }
  std::vector<std::string> order;
  std::transform(numbers.begin(), numbers.end(), std::back_inserter(order), row);
  order.push_back(all);
  out.batches = judge.errors(order);
  out.batch_width = judge.width();
}

CarriedFit carried(const FittedModel& model, const HardwareSpec& hardware,
                   const std::vector<FitPoint>& points, bool rates) {
  const HardwareSpec priced = model.priced_on(hardware);
  const Calibration calibration = calibration_of(model);
  CarriedFit out{.rates = rates};
  CarryJudge judge(model.carried_half_width(hardware));
  std::vector<RankedPoint> ranked;
  for (const FitPoint& p : points) {
    const Prediction predicted = predict(p, priced, calibration);
    std::vector<std::string> rows;
    for (const Kind& kind : kKinds) {
      if (kind.takes(p)) {
        rows.push_back(kind.name);
      }
    }
    judge.add(rows, predicted.time_us, predicted.dram_bytes, p,
              model.half_width(p.key.context_len - 1, p.key.context_len));
    if (p.time_us) {
      ranked.push_back({p.key, p.strategy.precision(), predicted.time_us, *p.time_us,
                        kNinety * p.time_log_error});
    }
  }
  std::vector<std::string> order;
  for (const Kind& kind : kKinds) {
    order.push_back(kind.name);
  }
  out.errors = judge.errors(order);
  out.width = judge.width();
  out.ranking = rank(ranked);
  return out;
}

}  // namespace

CarryReport carry_over(const FittedModel& model, const std::vector<PointMeasurement>& measured,
                       const std::string& device, const HardwareSpec& hardware) {
  if (device == model.device || hardware.key == model.hardware_key) {
    throw Error(ExitCode::kAnswerNo,
                "the fit is of '" + model.device +
                    "' itself: carrying it over needs points of another device");
  }
  FitPoints points = fit_points(measured, 0.0);
  points.skipped["of a form of attention that no point of the fit has"] +=
      static_cast<std::int64_t>(std::erase_if(
          points.points, [&](const FitPoint& p) { return !knows_launches_of(model, p); }));
  if (std::none_of(points.points.begin(), points.points.end(),
                   [](const FitPoint& p) { return p.time_us.has_value(); })) {
    throw Error(ExitCode::kAnswerNo,
                "there are no timed attention or step points of '" + device + "' to judge by");
  }
  if (points.dtype != model.dtype) {
    throw Error(ExitCode::kAnswerNo, "the points of '" + device + "' are in " +
                                         name_of(points.dtype) + ", the fit is of " +
                                         name_of(model.dtype));
  }
  FitPoints systems = system_points(measured);
  for (const auto& [reason, count] : systems.skipped) {
    points.skipped[reason] += count;
  }
  points.skipped["of another system that no point of the fit is of"] +=
      static_cast<std::int64_t>(std::erase_if(systems.points, [&](const FitPoint& p) {
        return model.system(system_name(p)) == nullptr;
      }));
  BatchPoints batches;
  if (model.batch.measured()) {
    batches = batch_points(timed_once(measured, points.skipped), model);
    for (const auto& [reason, count] : batches.skipped) {
      points.skipped[reason] += count;
    }
  }
  const auto carried_to = [&](const HardwareSpec& machine, bool rates) {
    CarriedFit fit = carried(model, machine, points.points, rates);
    judge_systems(model, machine, systems.points, fit);
    judge_batches(model, machine, batches.points, fit);
    return fit;
  };
  CarryReport report{.from = model.device,
                     .fitted_points = model.points,
                     .device = device,
                     .points = static_cast<std::int64_t>(points.points.size()),
                     .system_points = static_cast<std::int64_t>(systems.points.size()),
                     .batch_points = std::ssize(batches.points),
                     .fits = {carried_to(hardware, false)}};
  const HardwareSpec own = measured_machine(hardware, measured, device, points.skipped);
  if (is_calibrated(own, model.machine)) {
    report.fits.push_back(carried_to(own, true));
  }
  std::erase_if(points.skipped, [](const auto& each) { return each.second == 0; });
  report.skipped = std::move(points.skipped);
  return report;
}

namespace {

using nlohmann::ordered_json;

std::string percent(const std::optional<double>& value) {
  return value ? formatted("%.1f %%", 100.0 * *value) : "-";
}

std::string text_of(const CarriedFit& fit) {
  std::string out =
      formatted("\n%-36s latency median / 90th   signed   DRAM bytes median / 90th\n",
                fit.rates ? "by the rates that were measured there" : "by its data sheet alone");
  const auto table = [&](const std::vector<CarriedErrors>& rows, const WidthVerdict& width) {
    for (const CarriedErrors& e : rows) {
      out += formatted("  %-34s %10s / %-9s %7s %11s / %-9s (%d)\n", e.points.c_str(),
                       percent(e.latency.median_ape).c_str(), percent(e.latency.p90_ape).c_str(),
                       percent(e.latency.median_signed).c_str(),
                       percent(e.dram_bytes.median_ape).c_str(),
                       percent(e.dram_bytes.p90_ape).c_str(), static_cast<int>(e.latency.points));
    }
    out += formatted(
        "  90 %% intervals, %.2f wider in log latency than the fit's own, hold %s (%.3f would "
        "do)\n",
        width.added, percent(width.covered_90).c_str(), width.needed.value_or(0.0));
  };
  table(fit.errors, fit.width);
  const Ranking& ranking = fit.ranking;
  out += formatted("  ranking: Kendall tau %s, regret of the first choice %s, worst %s\n",
                   ranking.tau ? formatted("%.3f", *ranking.tau).c_str() : "-",
                   percent(ranking.mean_regret).c_str(), percent(ranking.worst_regret).c_str());
  if (!ranking.worst_choice.empty()) {
    out += "  worst choice " + ranking.worst_choice + "\n";
  }
  if (!fit.systems.empty()) {
    table(fit.systems, fit.system_width);
  }
  if (!fit.batches.empty()) {
    table(fit.batches, fit.batch_width);
  }
  return out;
}

ordered_json errors_json(const std::vector<CarriedErrors>& rows) {
  ordered_json errors = ordered_json::array();
  for (const CarriedErrors& e : rows) {
    errors.push_back({{"points", e.points},
                      {"latency", json_of(e.latency)},
                      {"dram_bytes", json_of(e.dram_bytes)}});
  }
  return errors;
}

ordered_json carried_json(const CarriedFit& fit) {
  ordered_json out = {{"by", fit.rates ? "measured rates" : "data sheet"},
                      {"errors", errors_json(fit.errors)},
                      {"added_log_half_width", fit.width.added},
                      {"needed_log_half_width", json_of(fit.width.needed)},
                      {"interval_coverage_90", json_of(fit.width.covered_90)},
                      {"kendall_tau", json_of(fit.ranking.tau)},
                      {"top1_regret", json_of(fit.ranking.mean_regret)},
                      {"worst_regret", json_of(fit.ranking.worst_regret)},
                      {"worst_choice", fit.ranking.worst_choice}};
  const auto add = [&](const char* name, const std::vector<CarriedErrors>& rows,
                       const WidthVerdict& width) {
    if (!rows.empty()) {
      out[name] = {{"errors", errors_json(rows)},
                   {"added_log_half_width", width.added},
                   {"needed_log_half_width", json_of(width.needed)},
                   {"interval_coverage_90", json_of(width.covered_90)}};
    }
  };
  add("other_systems", fit.systems, fit.system_width);
  add("many_requests", fit.batches, fit.batch_width);
  return out;
}

}  // namespace

std::string carry_text(const CarryReport& report) {
  std::string out = formatted(
      "fitted to %d points of %s, held against %d of %s that it has not seen%s%s\n",
      static_cast<int>(report.fitted_points), report.from.c_str(), static_cast<int>(report.points),
      report.device.c_str(),
      report.system_points > 0
          ? formatted(", and %d of other systems", static_cast<int>(report.system_points)).c_str()
          : "",
      report.batch_points > 0
          ? formatted(", and %d of many requests", static_cast<int>(report.batch_points)).c_str()
          : "");
  for (const CarriedFit& fit : report.fits) {
    out += text_of(fit);
  }
  if (report.fits.size() == 1) {
    out += "\nno rates: both machines need the points of the sweep calibrate for that\n";
  }
  for (const auto& [reason, points] : report.skipped) {
    out += formatted("left out: %d points, %s\n", static_cast<int>(points), reason.c_str());
  }
  return out;
}

std::string carry_json(const CarryReport& report) {
  ordered_json fits = ordered_json::array();
  for (const CarriedFit& fit : report.fits) {
    fits.push_back(carried_json(fit));
  }
  const ordered_json out = {{"fitted_device", report.from},
                            {"fitted_points", report.fitted_points},
                            {"device", report.device},
                            {"points", report.points},
                            {"system_points", report.system_points},
                            {"batch_points", report.batch_points},
                            {"carried", fits},
                            {"left_out", report.skipped}};
  return out.dump(2) + "\n";
}

}  // namespace versieve::engine
