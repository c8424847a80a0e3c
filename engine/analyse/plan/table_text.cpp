#include <algorithm>
#include <charconv>

#include "engine/analyse/plan/deployment.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/io/formatted.h"
#include "model/plan/guarded_plan.h"
#include "model/plan/system_grid.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

// The shortest decimal text that reads back to the same number.
std::string exact(double value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

// RFC 4180: a field with a comma, quote or line break is quoted.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? "\"\"" : std::string(1, c);
  }
  return out + "\"";
}

std::string cpp_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

const ContextBucket& bucket_of(const PlanTable& t, std::int64_t index) {
  return t.buckets[static_cast<std::size_t>(index)];
}

std::string csv_line(const PlanTable& t, const PlanEntry& e) {
  const Evaluation& v = e.evaluation;
  const ContextBucket& b = bucket_of(t, e.bucket);
  std::string line = std::to_string(b.low) + "," + std::to_string(b.high) + "," +
                     name_of(e.precision) + "," + std::to_string(e.rank) + "," +
                     csv_field(v.strategy.text());
  for (const double number : {v.expected_accepted, v.cost->time_us, v.throughput,
                              v.throughput_interval.low, v.throughput_interval.high, e.gain_over_ar,
                              e.gain_over_baseline, e.beats_baseline, v.cost->dram_bytes}) {
    line += "," + exact(number);
  }
  return line + "," + name_of(bottleneck_of(*v.cost)) + "," + name_of(v.source) + "," +
         (e.lossy ? "true" : "false") + "," + csv_field(e.note) + "," + e.baseline + "\n";
}

std::string cpp_row(const PlanTable& t, const PlanEntry& e) {
  const Evaluation& v = e.evaluation;
  const ContextBucket& b = bucket_of(t, e.bucket);
  return "    {" + std::to_string(b.low) + ", " + std::to_string(b.high) + ", " +
         cpp_text(name_of(e.precision)) + ", " + std::to_string(e.rank) + ", " +
         cpp_text(v.strategy.text()) + ", " + exact(v.expected_accepted) + ", " +
         exact(v.cost->time_us) + ", " + exact(v.throughput) + ", " +
         exact(v.throughput_interval.low) + ", " + exact(v.throughput_interval.high) + ", " +
         cpp_text(name_of(v.source)) + ", " + (e.lossy ? "true" : "false") + "},\n";
}

// What a form without provenance, reasons and baselines says in their place.
std::string remarks(const PlanTable& t, const std::string& mark) {
  std::string out =
      mark + "Planner table of versieve, schema " + std::to_string(PlanTable::kSchema) + ": " +
      t.model + " (" + t.dtype + ") on " + t.hardware + ".\n" + mark + t.provenance_note + ".\n" +
      mark + "Acceptance: " + acceptance_text(t) + ". Step times: geometry " + t.model + ".\n";
  for (const UnavailableCell& u : t.unavailable) {
    out += mark + "No rows for " + name_of(bucket_of(t, u.bucket)) + ": " + u.reason + ".\n";
  }
  return out + mark +
         "Not carried here: bytes by term, phases, excluded tuples, run ids. The JSON form has "
         "them.\n";
}

std::string entry_line(const PlanEntry& e) {
  const Evaluation& v = e.evaluation;
  std::string note = e.note.empty() ? "" : "  (" + e.note + ")";
  if (!e.baseline.empty()) {
    note = "  = baseline (" + e.baseline + "), a candidate of every class" + note;
  }
  return formatted(
             "  %2d  %-28s %7.1f tok/s [%.1f, %.1f]  %5.2f tokens in %8.1f us  %s-bound  "
             "%.2fx ar, %.2fx fixed (p %.2f)  %s",
             static_cast<int>(e.rank), v.strategy.text().c_str(), v.throughput,
             v.throughput_interval.low, v.throughput_interval.high, v.expected_accepted,
             v.cost->time_us, name_of(bottleneck_of(*v.cost)), e.gain_over_ar, e.gain_over_baseline,
             e.beats_baseline, name_of(v.source)) +
         note + "\n";
}

std::string cell_text(const PlanTable& t, std::int64_t bucket, PrecisionClass precision,
                      std::int64_t ranks) {
  std::string out = name_of(bucket_of(t, bucket)) + " tokens, " + name_of(precision) + "\n";
  for (const PlanEntry& e : t.entries) {
    if (e.bucket == bucket && e.precision == precision && e.rank <= ranks) {
      out += entry_line(e);
    }
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
    others += is_other ? system_space(precision).size() : 0;
  }
  return std::to_string(t.runnable) + " of " + std::to_string(t.enumerated) +
         " NSA tuples of the first four classes can run" +
         (others > 0 ? "; beside them " + std::to_string(others) + " of other systems" : "");
}

}  // namespace

std::string plan_table_csv(const PlanTable& t) {
  std::string out = remarks(t, "# ");
  out +=
      "context_low,context_high,class,rank,strategy,expected_accepted,step_latency_us,throughput,"
      "interval_low,interval_high,gain_over_ar,gain_over_baseline,beats_baseline,dram_bytes,"
      "bottleneck,source,lossy,note,baseline\n";
  for (const PlanEntry& e : t.entries) {
    out += csv_line(t, e);
  }
  return out;
}

std::string plan_table_cpp(const PlanTable& t) {
  std::string out = remarks(t, "// ");
  out +=
      "#pragma once\n\n#include <array>\n#include <cstdint>\n\nnamespace versieve_plan {\n\n"
      "// Contexts are (context_low, context_high]; rows are ranked within a bucket and class.\n"
      "struct Entry {\n  std::int64_t context_low;\n  std::int64_t context_high;\n"
      "  const char* precision_class;\n  int rank;\n  const char* strategy;\n"
      "  double expected_accepted;\n  double step_latency_us;\n  double throughput;\n"
      "  double interval_low;\n  double interval_high;\n  const char* source;\n"
      "  bool lossy;\n};\n\n";
  out += "inline constexpr int kSchema = " + std::to_string(PlanTable::kSchema) + ";\n";
  out += "inline constexpr const char* kHardware = " + cpp_text(t.hardware) + ";\n";
  out += "inline constexpr const char* kModel = " + cpp_text(t.model) + ";\n";
  out += "inline constexpr double kGuardAlpha = " + exact(t.guard.alpha) + ";\n";
  out += "inline constexpr double kGuardDropRatio = " + exact(t.guard.drop_ratio) + ";\n";
  out += "inline constexpr int kGuardWarmup = " + std::to_string(t.guard.warmup) + ";\n";
  out += "inline constexpr int kGuardHysteresis = " + std::to_string(t.guard.hysteresis) + ";\n";
  out += "inline constexpr int kGuardMaxTransitions = " + std::to_string(t.guard.max_transitions) +
         ";\n\n";
  out += "inline constexpr std::array<Entry, " + std::to_string(t.entries.size()) +
         "> kEntries = {{\n";
  for (const PlanEntry& e : t.entries) {
    out += cpp_row(t, e);
  }
  return out + "}};\n\n}  // namespace versieve_plan\n";
}

std::string plan_table_text(const PlanTable& t, std::int64_t ranks) {
  std::string out = t.model + " (" + t.dtype + ", " + t.launch + " launches) on " + t.hardware +
                    ": " + t.provenance_note + ".\nAcceptance from " + acceptance_text(t) + ". " +
                    counts_text(t) +
                    ". Intervals are 90 %; tokens a step count the bonus token.
                    ";
                    for (std::size_t b = 0; b < t.buckets.size(); ++b) {
    for (const PrecisionClass precision : t.classes) {
      out += "\n" + cell_text(t, static_cast<std::int64_t>(b), precision, ranks);
    }
    for (const PlanBaseline& base : t.baselines) {
      if (base.bucket == static_cast<std::int64_t>(b)) {
        out += formatted("  %-14s %-28s %7.1f tok/s\n", base.role.c_str(),
                         base.evaluation.strategy.text().c_str(), base.evaluation.throughput);
      }
    }
  }
  return out;
}

std::string exported_table(const PlanTable& table, const std::string& format) {
  if (format == "json") {
    return plan_table_json(table);
  }
  if (format == "csv") {
    return plan_table_csv(table);
  }
  if (format == "cpp") {
    return plan_table_cpp(table);
  }
  if (const ServingEngine* engine = serving_engine(format)) {
    return deployment_file(table, *engine, {});
  }
  throw Error(ExitCode::kUsage, "unknown format '" + format +
                                    "': the formats are json, csv, cpp, sglang, vllm, trtllm");
}

}  // namespace versieve::engine
