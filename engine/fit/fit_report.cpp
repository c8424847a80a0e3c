#include "engine/fit/fit_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <set>

#include "engine/fit/svg_plot.h"

namespace versieve::engine {
namespace {

constexpr const char* kStyle =
    "body{font:14px/1.45 system-ui,sans-serif;margin:24px auto;max-width:980px;color:#1b2733}"
    "h1{font-size:21px}h2{font-size:17px;margin:28px 0 8px}table{border-collapse:collapse}"
    "td,th{padding:3px 9px;border-bottom:1px solid #dde3ea;text-align:right;font-size:13px}"
    "td:first-child,th:first-child{text-align:left}svg{background:#fff;margin:4px}"
    "text{font:11px system-ui,sans-serif;fill:#445}.mid,.head{text-anchor:middle}"
    ".end{text-anchor:end}.head{font-weight:600;font-size:12px}.grid{stroke:#e7ebf0}"
    ".zero{stroke:#8894a3}.dot{fill:#7d9cc0;fill-opacity:.55}.strong{fill:#c2541d}"
    "p{max-width:760px}.bad{color:#b02a1c}";

std::string percent(std::optional<double> value) {
  if (!value) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100.0 * *value);
  return text;
}

std::string figure(std::optional<double> value) {
  if (!value) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", *value);
  return text;
}

std::string row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string out = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    // As an attribute too: not every reader of HTML knows :first-child.
    const char* const align = i == 0 ? " align=\"left\">" : " align=\"right\">";
    out += std::string("<") + tag + align + escaped(cells[i]) + "</" + tag + ">";
  }
  return out + "</tr>\n";
}

std::string table(const std::vector<std::string>& head,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<table>" + row(head, "th");
  for (const std::vector<std::string>& cells : rows) {
    out += row(cells);
  }
  return out + "</table>\n";
}

std::vector<std::string> summary_row(const std::string& name, const ErrorSummary& e) {
  return {name, std::to_string(e.points), percent(e.median_ape), percent(e.p90_ape),
          percent(e.median_signed)};
}

std::string label_of(const ComparedPoint& p) {
  return p.key.strategy + ", L " + std::to_string(p.key.context_len) + ", N " +
         std::to_string(p.key.num_queries) +
         (p.key.overlap ? ", overlap " + figure(p.key.overlap) : "") + ", " + p.key.cache_state;
}

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
  return p.counters_warmed_up && p.measured_bytes.value_or(0.0) >= kLeastJudgedBytes ? bytes_of(p)
                                                                                     : std::nullopt;
}

std::optional<Pair> megabytes_of(const ComparedPoint& p) {
  std::optional<Pair> pair = bytes_of(p);
  if (pair) {
    pair->measured /= 1e6;
    pair->predicted /= 1e6;
  }
  return pair;
}

class Page {
 public:
  explicit Page(const FitReport& report, bool with_plots = true)
      : r_(report), with_plots_(with_plots) {}

  std::string write() {
    out_ = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Fit of " +
           escaped(r_.model.device) + "</title><style>" + kStyle + "</style></head><body>";
    heading();
    errors();
    if (with_plots_) {
      out_ += "<h2>Predicted against measured</h2>" + svgs_of(against_measured());
      out_ += "<h2>Residuals of held-out points by axis</h2>" + svgs_of(residuals());
    }
    left_out();
    coverage_map();
    launches();
    worst();
    parameters();
    return out_ + "</body></html>\n";
  }

  std::vector<Plot> against_measured() const {
    return {against("latency", "us", latency_of), against("DRAM traffic", "MB", megabytes_of)};
  }
  std::vector<Plot> residuals() const;

 private:
  static std::string svgs_of(const std::vector<Plot>& plots) {
    std::string out;
    for (const Plot& plot : plots) {
      out += svg_of(plot);
    }
    return out;
  }
  void heading() {
    out_ += "<h1>Cost model of " + escaped(r_.model.device) + "</h1><p>" +
            std::to_string(r_.model.points) + " points (" + name_of(r_.model.evidence) + "), " +
            std::to_string(r_.points_holdout) + " of them held out by cell (" +
            percent(r_.holdout) +
            " asked). Predictions come from what a planner knows: context, queries, overlap; never "
            "from a point's own counters. Orange: held out.</p>";
  }

  void errors() {
    out_ += "<h2>Errors of held-out points</h2>";
    std::vector<std::vector<std::string>> errors = {
        summary_row("latency", r_.latency),
        summary_row("latency, closed form alone", r_.closed_form_latency),
        summary_row("DRAM bytes, read and written", r_.dram_bytes),
        summary_row("DRAM bytes read", r_.dram_read)};
    if (r_.dram_opened.points > 0) {
      errors.push_back(
          summary_row("DRAM bytes, opening of the collection counted along", r_.dram_opened));
    }
    if (!r_.left_out.empty()) {  // a quick fit leaves no regimes out
      errors.push_back(summary_row("latency, regime left out", r_.left_out_latency));
      errors.push_back(summary_row("DRAM bytes, regime left out", r_.left_out_dram));
    }
    out_ += table({"quantity", "points", "median", "90 %", "signed median"}, errors);
    if (r_.dram_few > 0) {
      char few[160];
      std::snprintf(few, sizeof few,
                    "<p>%d held-out points move less than %.0f MB: their bytes are off by %.0f KB "
                    "(median) and have no ratio here.</p>",
                    static_cast<int>(r_.dram_few), kLeastJudgedBytes * 1e-6,
                    r_.dram_few_error.value_or(0.0) * 1e-3);
      out_ += few;
    }
    std::vector<std::vector<std::string>> rows = {{"all held-out points",
                                                   std::to_string(r_.latency.points),
                                                   percent(r_.interval_coverage_90)}};
    for (const CoverageRow& c : r_.coverage) {
      rows.push_back({"context " + c.context, std::to_string(c.points), percent(c.covered)});
    }
    if (!r_.left_out.empty()) {
      rows.push_back({"regimes left out", std::to_string(r_.left_out_latency.points),
                      percent(r_.left_out_coverage_90)});
    }
    out_ += "<h2>What 90 % intervals hold</h2>" + table({"where", "points", "held"}, rows);
    out_ += "<p>Kendall's tau " + figure(r_.kendall_tau) + " (least " +
            figure(r_.least_kendall_tau) + "), regret of the first choice " +
            percent(r_.top1_regret) + " (worst " + percent(r_.worst_regret) + ").</p>";
  }

  Plot against(const std::string& title, const std::string& unit, const PairOf& pair) const {
    Plot plot{.title = title,
              .x = {.title = "measured, " + unit, .logarithmic = true},
              .y = {.title = "predicted, " + unit, .logarithmic = true},
              .diagonal = true};
    for (const ComparedPoint& p : r_.compared) {
      if (const std::optional<Pair> both = pair(p)) {
        plot.points.push_back({both->measured, both->predicted, p.held_out, label_of(p)});
      }
    }
    return plot;
  }

  Plot residual(const std::string& quantity, const PlotAxis& axis,
                const std::function<double(const ComparedPoint&)>& x, const PairOf& pair) const {
    Plot plot{.title = quantity + " by " + axis.title,
              .x = axis,
              .y = {.title = "predicted / measured - 1", .symmetric = true}};
    for (const ComparedPoint& p : r_.compared) {
      const std::optional<Pair> both = pair(p);
      if (both && p.held_out) {
        plot.points.push_back({x(p), both->relative(), true, label_of(p)});
      }
    }
    return plot;
  }

  void left_out() {
    if (r_.left_out.empty()) {
      return;
    }
    out_ +=
        "<h2>Regimes left out of the fit</h2><p>All points of one context length, or of one query "
        "count, predicted by a fit to the others. Those at an end lie beyond what that fit saw: "
        "the tool refuses such predictions, and their errors stand apart.</p>";
    std::vector<std::vector<std::string>> rows;
    for (const LeftOutError& e : r_.left_out) {
      rows.push_back({e.axis + " " + std::to_string(e.value) + (e.beyond ? " (beyond)" : ""),
                      std::to_string(e.latency.points), percent(e.latency.median_ape),
                      percent(e.latency.p90_ape), percent(e.dram_bytes.median_ape),
                      percent(e.dram_bytes.p90_ape), percent(e.interval_coverage_90)});
    }
    out_ += table({"left out", "points", "latency", "90 %", "DRAM bytes", "90 %", "held"}, rows);
  }

  // Points and median latency error of each context and query count.
  void coverage_map() {
    std::set<std::int64_t> contexts;
    std::set<std::int64_t> queries;
    for (const MeasuredRegime& m : r_.model.regimes) {
      contexts.insert(m.context_len);
      queries.insert(m.num_queries);
    }
    std::vector<std::string> head = {"context \\ queries"};
    for (const std::int64_t n : queries) {
      head.push_back(std::to_string(n));
    }
    std::vector<std::vector<std::string>> rows;
    for (const std::int64_t length : contexts) {
      std::vector<std::string> cells = {std::to_string(length)};
      for (const std::int64_t n : queries) {
        std::int64_t points = 0;
        for (const MeasuredRegime& m : r_.model.regimes) {
          points += m.context_len == length && m.num_queries == n ? m.points : 0;
        }
        cells.push_back(points == 0 ? "" : std::to_string(points));
      }
      rows.push_back(cells);
    }
    out_ +=
        "<h2>What was measured</h2><p>Points by context and queries; an empty cell is a regime "
        "that predictions only reach from its neighbours.</p>" +
        table(head, rows);
  }

  void launches() {
    out_ += "<h2>By launch: bytes against the counters of the launch that moves them</h2>";
    std::vector<std::vector<std::string>> rows;
    for (const TermError& t : r_.by_term) {
      rows.push_back({t.launch, std::to_string(t.dram_bytes.points),
                      percent(t.dram_bytes.median_ape), percent(t.dram_bytes.p90_ape),
                      percent(t.latency.median_ape), percent(t.latency.p90_ape),
                      figure(t.predicted_bytes), figure(t.measured_bytes)});
    }
    out_ += table({"launch", "points", "DRAM bytes", "90 %", "time", "90 %", "bytes predicted",
                   "bytes counted"},
                  rows);
  }

  void worst() {
    std::vector<std::pair<double, const ComparedPoint*>> order;
    for (const ComparedPoint& p : r_.compared) {
      if (const std::optional<Pair> both = latency_of(p)) {
        order.push_back({std::abs(std::log(both->predicted / both->measured)), &p});
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    order.resize(std::min<std::size_t>(20, order.size()));
    std::vector<std::vector<std::string>> rows;
    for (const auto& [error, p] : order) {
      rows.push_back({label_of(*p), p->held_out ? "held out" : "seen", figure(p->measured_us),
                      figure(p->predicted_us), percent(latency_of(*p)->relative())});
    }
    out_ += "<h2>The twenty worst latencies</h2>" +
            table({"point", "", "measured us", "predicted us", "error"}, rows);
  }

  void parameters() {
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < r_.model.estimates.size(); ++i) {
      const ParameterEstimate& e = r_.model.estimates[i];
      if (e.informed) {
        rows.push_back({parameter_table()[i].name, figure(e.value),
                        figure(e.low) + " - " + figure(e.high), parameter_table()[i].unit,
                        e.at_bound ? "at its bound" : ""});
      }
    }
    out_ += "<h2>Parameters that measurements inform</h2>" +
            table({"parameter", "value", "90 % interval", "unit", ""}, rows);
  }

  const FitReport& r_;
  bool with_plots_;
  std::string out_;
};

std::vector<Plot> Page::residuals() const {
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
    plots.push_back(residual(name, {"context", true}, context, pair));
    plots.push_back(residual(name, {"queries", true}, queries, pair));
    plots.push_back(residual(name, {"overlap"}, overlap, pair));
    plots.push_back(residual(name, {"measured time, us", true}, measured, pair));
  }
  return plots;
}

}  // namespace

std::string fit_html(const FitReport& report) {
  return Page(report).write();
}

std::string fit_tables_html(const FitReport& report) {
  return Page(report, false).write();
}

std::vector<Plot> fit_plots(const FitReport& report) {
  const Page page(report);
  std::vector<Plot> plots = page.against_measured();
  for (Plot& plot : page.residuals()) {
    plots.push_back(std::move(plot));
  }
  return plots;
}

}  // namespace versieve::engine
