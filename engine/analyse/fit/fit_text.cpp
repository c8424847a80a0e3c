// A fit on one screen: how good it is, where it is weak, bytes predicted against counted by launch,
// and the parameters that the measurements speak about.
#include <cmath>
#include <vector>

#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/goals.h"
#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

constexpr double kWideInterval = 10.0;  // greatest over least
constexpr std::size_t kListColumns = 92;

std::string percent(const std::optional<double>& value) {
  return value ? formatted("%.1f %%", 100.0 * *value) : "-";
}

std::string plain(const std::optional<double>& value) {
  return value ? formatted("%.3f", *value) : "-";
}

std::string error_text(const char* name, const ErrorSummary& e) {
  return formatted("  %-12s median %s, 90th %s, signed median %s (%d points)\n", name,
                   percent(e.median_ape).c_str(), percent(e.p90_ape).c_str(),
                   percent(e.median_signed).c_str(), static_cast<int>(e.points));
}

std::string goals_text(const FitReport& r) {
  std::string out =
      "\ngoal (median / 90th)                               wanted              measured\n";
  for (const Goal& g : goals_of(r)) {
    out += formatted("  %-48s %-19s %-30s %s\n", g.what.c_str(), g.wanted.c_str(),
                     g.measured.c_str(), g.met ? "met" : "NOT met");
  }
  return out;
}

std::string judged_text(const FitReport& r) {
  std::string out =
      "\nby context range, each point unseen by its fit (tau-b: pairs within one choice and "
      "class)\n";
  for (const CoverageRow& c : r.coverage) {
    out += formatted("  %-20s 90 %% intervals hold %-7s (%d points)\n", c.context.c_str(),
                     percent(c.covered).c_str(), static_cast<int>(c.points));
  }
  for (const RankedClass& c : r.ranked) {
    const PairCounts& pairs = c.pairs;
    out += formatted(
        "  %-20s %-14s tau %-5s  %d pairs agree, %d are opposed, %d / %d tied as measured / "
        "predicted\n",
        c.context.c_str(), name_of(c.precision), plain(c.tau).c_str(),
        static_cast<int>(pairs.agreeing), static_cast<int>(pairs.opposed),
        static_cast<int>(pairs.tied_measured), static_cast<int>(pairs.tied_predicted));
  }
  return out;
}

std::string regimes_text(const FitReport& r) {
  std::string out =
      "\nheld-out error by regime        latency median / p90      DRAM bytes median / p90\n";
  for (const RegimeError& e : r.by_regime) {
    out += formatted("  %-9s %13s x %-7s %9s / %-9s %12s / %-9s (%d)\n", e.workload.c_str(),
                     e.context.c_str(), e.queries.c_str(), percent(e.latency.median_ape).c_str(),
                     percent(e.latency.p90_ape).c_str(), percent(e.dram_bytes.median_ape).c_str(),
                     percent(e.dram_bytes.p90_ape).c_str(), static_cast<int>(e.latency.points));
  }
  return out;
}

std::string left_out_text(const FitReport& r) {
  if (r.left_out.empty()) {
    return {};
  }
  std::string out = "\nwhole regimes left out of the fit (beyond: refused as a prediction)\n" +
                    error_text("latency", r.left_out_latency) +
                    error_text("DRAM bytes", r.left_out_dram) + "  90 % intervals hold " +
                    percent(r.left_out_coverage_90) + "\n";
  for (const LeftOutError& e : r.left_out) {
    out += formatted("  %-8s %7lld %-7s latency %9s / %-9s DRAM bytes %9s / %-9s (%d)\n",
                     e.axis.c_str(), static_cast<long long>(e.value), e.beyond ? "beyond" : "",
                     percent(e.latency.median_ape).c_str(), percent(e.latency.p90_ape).c_str(),
                     percent(e.dram_bytes.median_ape).c_str(),
                     percent(e.dram_bytes.p90_ape).c_str(), static_cast<int>(e.latency.points));
  }
  return out;
}

std::string systems_text(const FitReport& r) {
  if (r.systems.empty()) {
    return {};
  }
  std::string out =
      "\nother systems, each point predicted by a fit that had not seen it\n"
      "                               latency median / p90      DRAM bytes median / p90   within\n";
  for (const SystemError& e : r.systems) {
    out +=
        formatted("  %-26s %9s / %-9s %12s / %-9s %7s (%d)\n", e.name.c_str(),
                  percent(e.latency.median_ape).c_str(), percent(e.latency.p90_ape).c_str(),
                  percent(e.dram_bytes.median_ape).c_str(), percent(e.dram_bytes.p90_ape).c_str(),
                  percent(std::exp(e.log_latency) - 1.0).c_str(), static_cast<int>(e.points));
  }
  return out;
}

std::string sparse_terms_text(const FitReport& r) {
  if (r.sparse_terms.empty()) {
    return {};
  }
  std::string out =
      "\nterms of a sparse step, KV (1/b + p + 1/f); left out: whole values, ends are beyond\n"
      "                      left out      latency median / p90      DRAM bytes median / p90   "
      "counted / formula\n";
  for (const SparseTermError& e : r.sparse_terms) {
    const std::string axis = e.axis.empty() ? "" : e.axis + (e.beyond ? " (ends)" : "");
    out += formatted("  %-20s %-9s %9s / %-9s (%d) %9s / %-9s (%d)", e.term.c_str(), axis.c_str(),
                     percent(e.latency.median_ape).c_str(), percent(e.latency.p90_ape).c_str(),
                     static_cast<int>(e.latency.points), percent(e.dram_bytes.median_ape).c_str(),
                     percent(e.dram_bytes.p90_ape).c_str(), static_cast<int>(e.dram_bytes.points));
    if (e.of_formula && e.axis.empty()) {
      out += formatted("  %.3f (%.3f to %.3f)", *e.of_formula, *e.of_formula_least,
                       *e.of_formula_most);
    }
    out += "\n";
  }
  return out;
}

std::string apart_text(const FitReport& r) {
  if (r.apart.before.points == 0) {
    return {};
  }
  return "\nsteps of " + r.apart.geometry +
         ", apart: the others' parameters know nothing of them\n" +
         error_text("as predicted", r.apart.before) + error_text("own launch", r.apart.latency);
}

std::string batches_text(const FitReport& r) {
  const BatchFit& b = r.model.batch;
  if (r.batches.empty()) {
    return {};
  }
  std::string out =
      formatted("\nsteps of many requests, %s: %d points, by whole numbers of requests left out\n",
                b.launch == LaunchMode::kGraph ? "recorded" : "as sessions run them",
                static_cast<int>(b.points));
  out += error_text("latency", r.batch_latency) + error_text("DRAM bytes", r.batch_dram) +
         error_text("terms alone", r.batch_closed_latency) + "  90 % intervals hold " +
         percent(r.batch_coverage_90) + "\n";
  for (const LeftOutError& e : r.batches) {
    out +=
        formatted("  %-8s %7lld %-7s latency %9s / %-9s DRAM bytes %9s / %-9s hold %6s (%d)\n",
                  e.axis.c_str(), static_cast<long long>(e.value), e.beyond ? "beyond" : "",
                  percent(e.latency.median_ape).c_str(), percent(e.latency.p90_ape).c_str(),
                  percent(e.dram_bytes.median_ape).c_str(), percent(e.dram_bytes.p90_ape).c_str(),
                  percent(e.interval_coverage_90).c_str(), static_cast<int>(e.latency.points));
  }
  for (std::size_t i = 0; i < kBatchTermCount; ++i) {
    const BatchTermInfo& info = batch_term_table()[i];
    const BatchTermEstimate& e = b.terms[i];
    out += formatted("  %-30s %11.4g  [%.4g, %.4g] %s%s\n", info.name, e.value, e.low, e.high,
                     info.unit, e.informed ? "" : "  no point moves it");
  }
  return out;
}

std::string energy_text(const FitReport& r) {
  const EnergyLaw& e = r.model.energy;
  if (!e.sampled()) {
    return {};
  }
  return formatted(
             "\nenergy of a step, %d points of up to %lld requests: %.1f W, %.1f pJ a byte of "
             "DRAM, "
             "%.3f pJ an operation; by whole numbers of requests left out\n",
             static_cast<int>(e.points), static_cast<long long>(e.most_requests), e.watts,
             1e12 * e.joules_per_byte, 1e12 * e.joules_per_flop) +
         error_text("energy", r.energy);
}

std::string terms_text(const FitReport& r) {
  std::string out =
      "\nDRAM bytes by launch, held out      predicted MB  counted MB   median error\n";
  for (const TermError& t : r.by_term) {
    out +=
        formatted("  %-30s %12.3f %12.3f %12s   time %s\n", t.launch.c_str(),
                  t.predicted_bytes * 1e-6, t.measured_bytes * 1e-6,
                  percent(t.dram_bytes.median_ape).c_str(), percent(t.latency.median_ape).c_str());
  }
  return out;
}

// Names after a heading, in lines of the page's width.
std::string listed(const std::string& heading, const std::vector<const char*>& names) {
  std::string out, line;
  for (const char* name : names) {
    if (line.size() + std::string(name).size() > kListColumns) {
      out += "    " + line + "\n";
      line.clear();
    }
    line += std::string(line.empty() ? "" : " ") + name;
  }
  return names.empty() ? "" : "  " + heading + "\n" + out + "    " + line + "\n";
}

// Parameters of launches that points have, which these points do not tell apart: from the first
// guess, or from others of the same launch.
std::string unseparated_text(const FitReport& r) {
  std::vector<const char*> unknown, weak;
  for (std::size_t i = kSharedParameterCount; i < kParameterCount; ++i) {
    const ParameterEstimate& e = r.model.estimates[i];
    const ParameterInfo& info = parameter_table()[i];
    const LaunchKind kind =
        static_cast<LaunchKind>((i - kSharedParameterCount) / kKindParameterCount);
    if (info.evidence != Evidence::kTime || !r.model.informs(kind)) {
      continue;
    }
    if (!e.informed) {
      unknown.push_back(info.name);
    } else if (!e.at_bound && e.high > kWideInterval * e.low) {
      weak.push_back(info.name);
    }
  }
  return listed("no point separates, kept where the fit began:", unknown) +
         listed("told apart weakly, an interval wider than a factor of 10:", weak);
}

std::string parameters_text(const FitReport& r) {
  std::string out =
      "\nparameters (90 % intervals; those that no measurement informs are left out)\n";
  for (std::size_t i = 0; i < kParameterCount; ++i) {
    const ParameterEstimate& e = r.model.estimates[i];
    const ParameterInfo& info = parameter_table()[i];
    if (e.informed) {
      out += formatted("  %-30s %11.4g  [%.4g, %.4g] %s%s\n", info.name, e.value, e.low, e.high,
                       info.unit, e.at_bound ? "  at its bound" : "");
    }
  }
  return out + unseparated_text(r);
}

std::string prior_text(const FittedModel& model) {
  if (!model.prior) {
    return {};
  }
  const RateScale& s = model.prior->scale;
  const std::string begin =
      formatted("  on top of a fit to %d points of %s, whose parameters stay",
                static_cast<int>(model.prior->points), model.prior->device.c_str());
  if (s == RateScale{}) {
    return begin + "; data sheets alone carry it: the sweep calibrate was not run on both\n";
  }
  return begin +
         formatted(
             ";\n  of its data sheet, against the machine of the parameters, this one gives "
             "%.2f of reads, %.2f of L2, %.2f of products; a launch takes %.2f times as "
             "long\n",
             s.read, s.l2, s.products, s.graph_gap);
}

}  // namespace

std::string fit_text(const FitReport& r) {
  std::string out =
      formatted("%s: fitted to %d points, judged on %d held out (%s, %s)\n", r.model.device.c_str(),
                static_cast<int>(r.points_train), static_cast<int>(r.points_holdout),
                name_of(r.model.dtype), name_of(r.model.evidence)) +
      prior_text(r.model);
  out += goals_text(r) + "\n";
  out += error_text("latency", r.latency) + error_text("DRAM bytes", r.dram_bytes);
  out += "  90 % intervals hold " + percent(r.interval_coverage_90) + "; ranking: Kendall tau " +
         plain(r.kendall_tau) + ", regret of the first choice " + percent(r.top1_regret) + "\n";
  if (!r.worst_choice.empty()) {
    out += "  worst choice " + r.worst_choice + "\n";
  }
  out += error_text("closed form", r.closed_form_latency) + error_text("DRAM read", r.dram_read);
  if (r.dram_warm.points > 0) {
    out += error_text("DRAM warm", r.dram_warm);
  }
  if (r.dram_few > 0) {
    out += formatted("  below %.0f MB of DRAM bytes: %d points, median %.0f KB off\n",
                     kLeastJudgedBytes * 1e-6, static_cast<int>(r.dram_few),
                     r.dram_few_error.value_or(0.0) * 1e-3);
  }
  out += judged_text(r);
  out += left_out_text(r) + regimes_text(r) + systems_text(r) + sparse_terms_text(r) +
         apart_text(r) + batches_text(r) + energy_text(r) + terms_text(r) + parameters_text(r);
  for (const auto& [reason, points] : r.skipped) {
    out += formatted("left out: %d points, %s\n", static_cast<int>(points), reason.c_str());
  }
  return out;
}

}  // namespace versieve::engine
