#include "engine/analyse/plan/deployment.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "model/plan/class_choice.h"
#include "model/plan/concurrency.h"
#include "model/plan/guarded_plan.h"
#include "model/plan/loss_limit.h"
#include "model/plan/system_grid.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

const ContextBucket& bucket_of(const PlanTable& t, std::int64_t index) {
  return t.buckets[static_cast<std::size_t>(index)];
}

// "  9.1 tokens/J"; empty where no power was sampled.
std::string energy_text(const PlanTable& t, const Evaluation& v) {
  if (!t.energy.sampled()) {
    return {};
  }
  return formatted("  %.1f tokens/J", energy_yield(t.energy, v, t.concurrency).tokens_per_joule);
}

std::string entry_line(const PlanTable& t, const PlanEntry& e) {
  const Evaluation& v = e.evaluation;
  std::string note = e.note.empty() ? "" : "  (" + e.note + ")";
  if (!e.baseline.empty()) {
    note = "  = baseline (" + e.baseline + "), a candidate of every class" + note;
  }
  return formatted(
             "  %2d  %-28s %7.1f tok/s [%.1f, %.1f]%s  %5.2f tokens in %8.1f us  %s-bound  "
             "%.2fx ar, %.2fx fixed (p %.2f)  %s  %s",
             static_cast<int>(e.rank), v.strategy.text().c_str(), v.throughput,
             v.throughput_interval.low, v.throughput_interval.high, energy_text(t, v).c_str(),
             v.expected_accepted, v.cost->time_us, name_of(bottleneck_of(*v.cost)), e.gain_over_ar,
             e.gain_over_baseline, e.beats_baseline, name_of(v.source),
             short_text(e.price).c_str()) +
         note + "\n";
}

std::string cell_text(const PlanTable& t, std::int64_t bucket, PrecisionClass precision,
                      std::int64_t ranks) {
  std::string out = name_of(bucket_of(t, bucket)) + " tokens, " + name_of(precision) + "\n";
  const ClassChoice choice = class_choice(t, bucket, precision);
  for (const PlanEntry* e : entries_of(t, bucket, precision)) {
    if (e->rank <= ranks || e == choice.best) {
      out += entry_line(t, *e);
    }
  }
  if (choice.ahead != nullptr) {
    out += "      " + own_text(choice) + "\n";
  }
  for (const UnavailableCell& u : t.unavailable) {
    if (u.bucket == bucket && u.precision == precision) {
      out += "      " + u.reason + "\n";
    }
  }
  const std::string condition = run_condition(t, bucket, precision);
  if (!condition.empty()) {
    out += "      (" + condition + ")\n";
  }
  return out;
}

// " NSA tuples can run", and how many tuples of other systems are priced beside them.
std::string counts_text(const PlanTable& t) {
  std::size_t others = 0;
  for (const PrecisionClass precision : t.classes) {
    const bool is_other = precision >= PrecisionClass::kSparseRectified;
    others += is_other ? system_space(precision, t.systems).size() : 0;
  }
  return std::to_string(t.runnable) + " of " + std::to_string(t.enumerated) +
         (is_of_dense_target(t) ? " tuples of dense attention can run"
                                : " NSA tuples of the first four classes can run") +
         (others > 0 ? "; beside them " + std::to_string(others) + " of other systems" : "");
}

}  // namespace

std::string plan_table_text(const PlanTable& t, std::int64_t ranks) {
  std::string out = t.model + " (" + t.dtype + ", " + t.launch + " launches) on " + t.hardware +
                    ": " + t.provenance_note + ".\nAcceptance from " + acceptance_text(t) + ". " +
                    counts_text(t) + ". " + intervals_text(t) +
                    " Tokens a step count the bonus token.\n";
  if (t.sources) {
    out += "Evidence of " + sources_text(t) + ".\n";
  }
  if (t.max_loss) {
    out += loss_limit_text(t) + ".\n";
  }
  for (std::size_t b = 0; b < t.buckets.size(); ++b) {
    for (const PrecisionClass precision : t.classes) {
      out += "\n" + cell_text(t, static_cast<std::int64_t>(b), precision, ranks);
    }
    for (const PlanBaseline& base : t.baselines) {
      if (base.bucket == static_cast<std::int64_t>(b)) {
        out += formatted("  %-14s %-28s %7.1f tok/s%s\n", base.role.c_str(),
                         base.evaluation.strategy.text().c_str(), base.evaluation.throughput,
                         energy_text(t, base.evaluation).c_str());
      }
    }
  }
  if (has_concurrency(t)) {
    out += "\n" + concurrency_text(t);
  }
  return out;
}

std::string exported_table(const PlanTable& table, const std::string& format,
                           const std::string& name) {
  if (format == "json") {
    return plan_table_json(table);
  }
  if (format == "csv") {
    return plan_table_csv(table);
  }
  if (format == "cpp") {
    return plan_table_cpp(table, name);
  }
  if (const ServingEngine* engine = serving_engine(format)) {
    return deployment_file(table, *engine, {});
  }
  throw Error(ExitCode::kUsage, "unknown format '" + format +
                                    "': the formats are json, csv, cpp, sglang, vllm, trtllm");
}

}  // namespace versieve::engine
