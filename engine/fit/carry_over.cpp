#include "engine/fit/carry_over.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/fit/error_json.h"
#include "engine/fit/error_tables.h"
#include "engine/fit/machine_prior.h"
#include "engine/fit/predictor.h"
#include "engine/fit/statistics.h"
#include "engine/io/formatted.h"
#include "model/error.h"

namespace versieve::engine {
namespace {

constexpr double kNinety = 1.6448536269514722;  // standard errors that hold 90 % of a normal law

struct Kind {
  const char* name;
  bool (*takes)(const FitPoint& point);
};

bool is_step(const FitPoint& p) {
  return p.key.workload == WorkloadKind::kStep;
}
bool is_warm(const FitPoint& p) {
  return p.conditions.cache == CacheState::kWarm;
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

Calibration calibration_of(const FittedModel& model) {
  return {.estimates = model.estimates,
          .values = model.parameters(),
          .attention_time = model.attention_time,
          .step_time = model.step_time};
}

CarriedFit carried(const FittedModel& model, const HardwareSpec& hardware,
                   const std::vector<FitPoint>& points, bool rates) {
  const HardwareSpec priced = model.priced_on(hardware);
  const Calibration calibration = calibration_of(model);
  std::vector<Prediction> predictions;
  predictions.reserve(points.size());
  for (const FitPoint& p : points) {
    predictions.push_back(predict(p, priced, calibration));
  }
  CarriedFit out{.rates = rates, .added = model.carried_half_width(hardware)};
  for (const Kind& kind : kKinds) {
    Errors latency;
    Errors dram;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (kind.takes(points[i])) {
        latency.add(predictions[i].time_us, points[i].time_us);
        dram.add(predictions[i].dram_bytes, judged_bytes(points[i]));
      }
    }
    if (latency.summary().points > 0) {
      out.errors.push_back({kind.name, latency.summary(), dram.summary()});
    }
  }
  Coverage covered;
  std::vector<double> beyond;  // how much wider than at home each point's interval had to be
  std::vector<RankedPoint> ranked;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const FitPoint& p = points[i];
    if (p.time_us) {
      const double error = std::abs(std::log(predictions[i].time_us / *p.time_us));
      const double home = model.half_width(p.key.context_len - 1, p.key.context_len);
      covered.add(error, home + out.added);
      beyond.push_back(error - home);
      ranked.push_back({p.key, p.strategy.precision(), predictions[i].time_us, *p.time_us,
                        kNinety * p.time_log_error});
    }
  }
  out.covered_90 = covered.share();
  if (const std::optional<double> needed = quantile(beyond, 0.9)) {
    out.needed = std::max(0.0, *needed);
  }
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
    throw Error(ExitCode::kAnswerNo, "the points of '" + device + "' are in " + points.dtype +
                                         ", the fit is of " + model.dtype);
  }
  std::erase_if(points.skipped, [](const auto& each) { return each.second == 0; });
  CarryReport report{.from = model.device,
                     .fitted_points = model.points,
                     .device = device,
                     .points = static_cast<std::int64_t>(points.points.size()),
                     .fits = {carried(model, hardware, points.points, false)}};
  const HardwareSpec own = measured_machine(hardware, measured, device, points.skipped);
  if (is_calibrated(own, model.machine)) {
    report.fits.push_back(carried(model, own, points.points, true));
  }
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
  for (const CarriedErrors& e : fit.errors) {
    out += formatted("  %-34s %10s / %-9s %7s %11s / %-9s (%d)\n", e.points.c_str(),
                     percent(e.latency.median_ape).c_str(), percent(e.latency.p90_ape).c_str(),
                     percent(e.latency.median_signed).c_str(),
                     percent(e.dram_bytes.median_ape).c_str(),
                     percent(e.dram_bytes.p90_ape).c_str(), static_cast<int>(e.latency.points));
  }
  out += formatted(
      "  90 %% intervals, %.2f wider in log latency than the fit's own, hold %s (%.3f would do)\n",
      fit.added, percent(fit.covered_90).c_str(), fit.needed.value_or(0.0));
  const Ranking& ranking = fit.ranking;
  out += formatted("  ranking: Kendall tau %s, regret of the first choice %s, worst %s\n",
                   ranking.tau ? formatted("%.3f", *ranking.tau).c_str() : "-",
                   percent(ranking.mean_regret).c_str(), percent(ranking.worst_regret).c_str());
  if (!ranking.worst_choice.empty()) {
    out += "  worst choice " + ranking.worst_choice + "\n";
  }
  return out;
}

ordered_json carried_json(const CarriedFit& fit) {
  ordered_json errors = ordered_json::array();
  for (const CarriedErrors& e : fit.errors) {
    errors.push_back({{"points", e.points},
                      {"latency", json_of(e.latency)},
                      {"dram_bytes", json_of(e.dram_bytes)}});
  }
  return {{"by", fit.rates ? "measured rates" : "data sheet"},
          {"errors", errors},
          {"added_log_half_width", fit.added},
          {"needed_log_half_width", json_of(fit.needed)},
          {"interval_coverage_90", json_of(fit.covered_90)},
          {"kendall_tau", json_of(fit.ranking.tau)},
          {"top1_regret", json_of(fit.ranking.mean_regret)},
          {"worst_regret", json_of(fit.ranking.worst_regret)},
          {"worst_choice", fit.ranking.worst_choice}};
}

}  // namespace

std::string carry_text(const CarryReport& report) {
  std::string out =
      formatted("fitted to %d points of %s, held against %d of %s that it has not seen\n",
                static_cast<int>(report.fitted_points), report.from.c_str(),
                static_cast<int>(report.points), report.device.c_str());
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
                            {"carried", fits},
                            {"left_out", report.skipped}};
  return out.dump(2) + "\n";
}

}  // namespace versieve::engine
