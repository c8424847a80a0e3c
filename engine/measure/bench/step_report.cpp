// A step bench as JSON and as text.
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/measure/bench/cold_reads_report.h"
#include "engine/measure/bench/step_bench.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json json_of(const profiler::SampleSummary& us) {
  return {{"median", us.median}, {"low", us.median_low}, {"high", us.median_high}, {"mad", us.mad}};
}

ordered_json json_of(const StepRow& row) {
  ordered_json out = {{"strategy", row.strategy.text()},
                      {"context", row.context_len},
                      {"n", row.strategy.draft.nodes},
                      {"launch", name_of(row.launch)},
                      {"refused_because", row.refused_because}};
  if (!row.refused_because.empty()) {
    return out;
  }
  out["time_us"] = json_of(row.time);
  out["verification_us"] = json_of(row.verification);
  out["verification_over_autoregressive"] = json_of(row.verification_over_ar);
  out["bytes"] = row.step_bytes;
  out["bound_us"] = json_of(row.bound_us);
  out["share_of_bandwidth"] =
      row.bound_us ? ordered_json(*row.bound_us / row.time.median) : ordered_json();
  out["over_autoregressive"] = json_of(row.over_ar);
  out["tokens"] = row.tokens;
  out["tokens_per_second"] = row.tokens / row.time.median * 1e6;
  return out;
}

std::string column(const char* form, const std::optional<double>& value) {
  char text[32];
  std::snprintf(text, sizeof text, form, value.value_or(0.0));
  return value ? text : std::string(std::strlen(text) - 1, ' ') + "-";
}

std::string line_of(const StepRow& row) {
  char text[160];
  std::snprintf(text, sizeof text, "%7lld  %-32s", static_cast<long long>(row.context_len),
                row.strategy.text().c_str());
  std::string line = text;
  if (!row.refused_because.empty()) {
    return line + " " + row.refused_because + "\n";
  }
  std::snprintf(text, sizeof text, " %9.1f [%8.1f, %8.1f]", row.time.median, row.time.median_low,
                row.time.median_high);
  const std::optional<double> share =
      row.bound_us ? std::optional<double>(100.0 * *row.bound_us / row.time.median) : std::nullopt;
  line += text + column(" %7.0f", share) + column(" %8.2f", row.over_ar);
  std::snprintf(text, sizeof text, " %9.1f [%8.1f, %8.1f]", row.verification.median,
                row.verification.median_low, row.verification.median_high);
  line += text + column(" %8.2f", row.verification_over_ar);
  std::snprintf(text, sizeof text, " %4.0f %10.1f  %s\n", row.tokens,
                row.tokens / row.time.median * 1e6, name_of(row.launch));
  return line + text;
}

}  // namespace

std::string step_bench_json(const StepBench& b) {
  ordered_json rows = ordered_json::array();
  for (const StepRow& row : b.rows) {
    rows.push_back(json_of(row));
  }
  return ordered_json{{"bench", "step"},
                      {"device", b.device},
                      {"backend", b.backend},
                      {"dtype", b.dtype},
                      {"geometry", b.options.geometry},
                      {"samples", b.options.samples},
                      {"seed", b.options.seed},
                      {"interval", "95 % order statistics of the median"},
                      {"cold_reads", cold_reads_json(b.cold_reads)},
                      {"rows", rows}}
             .dump(1) +
         "\n";
}

std::string step_bench_text(const StepBench& b) {
  std::string out =
      "whole steps of " + b.options.geometry + ", synthetic weights, " + b.dtype + ", on " +
      b.device + " (" + b.backend + "), median of " + std::to_string(b.options.samples) +
      " [95 % interval], us\n" +
      "      L  strategy                              step  [95 % interval]     "
      "% of bw  over ar    verify  [95% interval]      over ar  tok   tokens/s  launch\n";
  for (const StepRow& row : b.rows) {
    out += line_of(row);
  }
  out +=
      "% of bw: target's weights and caches read once, the draft's weights once a pass, at the "
      "rate of this machine's longest read.\nverify: verification, acceptance and commit without "
      "draft; in graphs, steps of their own that verify one full tree, else those phases by the "
      "host's clock.\n";
  return out + "tok: committed a step, whatever the untrained target says.\n" +
         cold_reads_line(b.cold_reads);
}

}  // namespace versieve::engine
