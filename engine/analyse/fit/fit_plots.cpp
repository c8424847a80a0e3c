// A fit's plots: predicted against measured, and residuals of held-out points by axis.
#include <cmath>
#include <functional>

#include "engine/analyse/fit/fit_report.h"
#include "engine/analyse/fit/report_parts.h"

namespace versieve::engine {
namespace {

// A measured and a predicted figure of a point; nothing where it was not measured.
struct Pair {
  double measured = 0.0, predicted = 0.0;
  double relative() const { return predicted / measured - 1.0; }
};
using PairOf = std::function<std::optional<Pair>(const ComparedPoint&)>;

std::optional<Pair> pair_of(std::optional<double> measured, double predicted) {
  if (!measured || !(*measured > 0.0)) {
    return {};
  }
  return Pair{*measured, predicted};
}

std::optional<Pair> latency_of(const ComparedPoint& p) {
  return pair_of(p.measured_us, p.predicted_us);
}

std::optional<Pair> bytes_of(const ComparedPoint& p) {
  return pair_of(p.measured_bytes, p.predicted_bytes);
}

// Those of which a ratio says something.
std::optional<Pair> judged_bytes_of(const ComparedPoint& p) {
  return p.measured_bytes.value_or(0.0) >= kLeastJudgedBytes ? bytes_of(p) : std::nullopt;
}

std::optional<Pair> megabytes_of(const ComparedPoint& p) {
  std::optional<Pair> pair = bytes_of(p);
  if (pair) {
    pair->measured /= 1e6;
    pair->predicted /= 1e6;
  }
  return pair;
}

Plot against(const std::string& title, const std::string& unit, const PairOf& pair,
             const FitReport& report) {
  Plot plot{.title = title,
            .x = {.title = "measured, " + unit, .logarithmic = true},
            .y = {.title = "predicted, " + unit, .logarithmic = true},
            .diagonal = true};
  for (const ComparedPoint& p : report.compared) {
    if (const std::optional<Pair> both = pair(p)) {
      plot.points.push_back({both->measured, both->predicted, p.held_out, label_of(p)});
    }
  }
  return plot;
}

Plot residual(const std::string& quantity, const PlotAxis& axis,
              const std::function<double(const ComparedPoint&)>& x, const PairOf& pair,
              const FitReport& report) {
  Plot plot{.title = quantity + " by " + axis.title,
            .x = axis,
            .y = {.title = "predicted / measured - 1", .symmetric = true}};
  for (const ComparedPoint& p : report.compared) {
    const std::optional<Pair> both = pair(p);
    if (both && p.held_out) {
      plot.points.push_back({x(p), both->relative(), true, label_of(p)});
    }
  }
  return plot;
}

}  // namespace

std::string label_of(const ComparedPoint& p) {
  return p.key.strategy + ", L " + std::to_string(p.key.context_len) + ", N " +
         std::to_string(p.key.num_queries) +
         (p.key.overlap ? ", overlap " + figure(p.key.overlap) : "") + ", " +
         name_of(p.key.cache_state);
}

std::vector<Plot> plots_against_measured(const FitReport& report) {
  return {against("latency", "us", latency_of, report),
          against("DRAM traffic", "MB", megabytes_of, report)};
}

std::vector<Plot> plots_of_residuals(const FitReport& report) {
  const auto context = [](const ComparedPoint& p) {
    return static_cast<double>(p.key.context_len);
  };
  const auto queries = [](const ComparedPoint& p) {
    return static_cast<double>(p.key.num_queries);
  };
  const auto overlap = [](const ComparedPoint& p) { return p.key.overlap.value_or(NAN); };
  const auto measured = [](const ComparedPoint& p) { return p.measured_us.value_or(NAN); };
  std::vector<Plot> plots;
  for (const auto& [name, pair] : {std::pair<std::string, PairOf>{"latency", latency_of},
                                   std::pair<std::string, PairOf>{"DRAM bytes", judged_bytes_of}}) {
    plots.push_back(residual(name, {"context", true}, context, pair, report));
    plots.push_back(residual(name, {"queries", true}, queries, pair, report));
    plots.push_back(residual(name, {"overlap"}, overlap, pair, report));
    plots.push_back(residual(name, {"measured time, us", true}, measured, pair, report));
  }
  return plots;
}

std::vector<Plot> fit_plots(const FitReport& report) {
  std::vector<Plot> plots = plots_against_measured(report);
  for (Plot& plot : plots_of_residuals(report)) {
    plots.push_back(std::move(plot));
  }
  return plots;
}

}  // namespace versieve::engine
