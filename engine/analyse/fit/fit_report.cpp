#include "engine/analyse/fit/fit_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "engine/analyse/fit/goals.h"
#include "engine/analyse/fit/report_parts.h"
#include "engine/analyse/fit/svg_plot.h"

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

std::vector<std::string> summary_row(const std::string& name, const ErrorSummary& e) {
  return {name, std::to_string(e.points), percent(e.median_ape), percent(e.p90_ape),
          percent(e.median_signed)};
}

class Page {
 public:
  explicit Page(const FitReport& report, bool with_plots = true)
      : r_(report), with_plots_(with_plots) {}

  std::string write() {
    out_ = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Fit of " +
           escaped(r_.model.device) + "</title><style>" + kStyle + "</style></head><body>";
    heading();
    goals();
    errors();
    if (with_plots_) {
      out_ += "<h2>Predicted against measured</h2>" + svgs_of(plots_against_measured(r_));
      out_ += "<h2>Residuals of held-out points by axis</h2>" + svgs_of(plots_of_residuals(r_));
    }
    left_out();
    coverage_map();
    systems();
    sparse_terms();
    apart();
    launches();
    worst();
    parameters();
    return out_ + "</body></html>\n";
  }

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
            percent(r_.holdout) + " asked)" +
            (r_.model.prior
                 ? ", on top of a fit to " + std::to_string(r_.model.prior->points) +
                       " points of " + escaped(r_.model.prior->device) + ", whose parameters stay"
                 : std::string()) +
            ". Predictions come from what a planner knows: context, queries, overlap; never "
            "from a point's own counters. Orange: held out.</p>";
  }

  void goals() {
    std::vector<std::vector<std::string>> rows;
    for (const Goal& g : goals_of(r_)) {
      rows.push_back({g.what, g.wanted, g.measured, g.met ? "met" : "not met"});
    }
    out_ += "<h2>Goals</h2><p>Errors are median / 90th percentile; points in brackets.</p>" +
            table({"goal", "wanted", "measured", ""}, rows);
  }

  void errors() {
    out_ += "<h2>Errors of held-out points</h2>";
    std::vector<std::vector<std::string>> errors = {
        summary_row("latency", r_.latency),
        summary_row("latency, closed form alone", r_.closed_form_latency),
        summary_row("DRAM bytes, read and written", r_.dram_bytes),
        summary_row("DRAM bytes read", r_.dram_read)};
    if (r_.dram_warm.points > 0) {
      errors.push_back(summary_row("DRAM bytes, those of warm caches", r_.dram_warm));
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
    rows.push_back({"all points, each unseen by its fit", "", percent(r_.unseen_coverage_90)});
    for (const CoverageRow& c : r_.coverage) {
      rows.push_back({"context " + c.context, std::to_string(c.points), percent(c.covered)});
    }
    if (!r_.left_out.empty()) {
      rows.push_back({"regimes left out", std::to_string(r_.left_out_latency.points),
                      percent(r_.left_out_coverage_90)});
    }
    out_ += "<h2>What 90 % intervals hold</h2>" + table({"where", "points", "held"}, rows);
    ranks();
  }

  void ranks() {
    std::vector<std::vector<std::string>> rows;
    for (const RankedClass& c : r_.ranked) {
      rows.push_back({c.context + ", " + name_of(c.precision), figure(c.tau),
                      std::to_string(c.pairs.agreeing), std::to_string(c.pairs.opposed),
                      std::to_string(c.pairs.tied_measured),
                      std::to_string(c.pairs.tied_predicted)});
    }
    out_ +=
        "<h2>Ranking</h2><p>Pairs of points that are equal but for strategy and queries, of "
        "one class, by verified queries a second; each point unseen by its fit. A pair closer "
        "than the measurements tell apart is tied. Kendall's tau-b " +
        figure(r_.kendall_tau) + " (least " + figure(r_.least_kendall_tau) +
        "), regret of the first choice " + percent(r_.top1_regret) + " (worst " +
        percent(r_.worst_regret) + ").</p>" +
        table({"contexts, class", "tau-b", "agree", "opposed", "tied as measured",
               "tied as predicted"},
              rows);
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

  void systems() {
    if (r_.systems.empty()) {
      return;
    }
    std::vector<std::vector<std::string>> rows;
    for (const SystemError& e : r_.systems) {
      rows.push_back({e.name, std::to_string(e.points), percent(e.latency.median_ape),
                      percent(e.latency.p90_ape), percent(e.dram_bytes.median_ape),
                      percent(e.dram_bytes.p90_ape), percent(std::exp(e.log_latency) - 1.0)});
    }
    out_ +=
        "<h2>Other systems</h2><p>Each point predicted by a fit that had not seen it.</p>" +
        table({"points of", "points", "latency", "90 %", "DRAM bytes", "90 %", "interval"}, rows);
  }

  void sparse_terms() {
    if (r_.sparse_terms.empty()) {
      return;
    }
    std::vector<std::vector<std::string>> rows;
    for (const SparseTermError& e : r_.sparse_terms) {
      rows.push_back({e.term, e.axis + (e.beyond ? " (ends)" : ""),
                      std::to_string(e.latency.points), percent(e.latency.median_ape),
                      percent(e.latency.p90_ape), percent(e.dram_bytes.median_ape),
                      percent(e.dram_bytes.p90_ape), percent(e.of_formula)});
    }
    out_ +=
        "<h2>Terms of a sparse step</h2><p>KV (1/b + p + 1/f), term by term, of points that the "
        "fit had not seen or of whole values left out.</p>" +
        table({"term", "left out", "points", "latency", "90 %", "DRAM bytes", "90 %",
               "counted of formula"},
              rows);
  }

  void apart() {
    const ApartSteps& a = r_.apart;
    if (a.before.points == 0) {
      return;
    }
    const auto row = [](const char* name, const ErrorSummary& e) {
      return std::vector<std::string>{name, std::to_string(e.points), percent(e.median_ape),
                                      percent(e.p90_ape), percent(e.median_signed)};
    };
    out_ += "<h2>Steps of " + escaped(a.geometry) +
            "</h2><p>Apart: they move nothing of the others.</p>" +
            table({"predicted by", "points", "latency", "90 %", "signed"},
                  {row("the fit to the others", a.before),
                   row("one with their own launch and residuals, unseen", a.latency)});
  }

  void worst() {
    std::vector<std::pair<double, const ComparedPoint*>> order;
    for (const ComparedPoint& p : r_.compared) {
      if (p.measured_us && *p.measured_us > 0.0) {
        order.push_back({std::abs(std::log(p.predicted_us / *p.measured_us)), &p});
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    order.resize(std::min<std::size_t>(20, order.size()));
    std::vector<std::vector<std::string>> rows;
    for (const auto& [error, p] : order) {
      rows.push_back({label_of(*p), p->held_out ? "held out" : "seen", figure(p->measured_us),
                      figure(p->predicted_us), percent(p->predicted_us / *p->measured_us - 1.0)});
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

}  // namespace

std::string fit_html(const FitReport& report) {
  return Page(report).write();
}

std::string fit_tables_html(const FitReport& report) {
  return Page(report, false).write();
}

}  // namespace versieve::engine
