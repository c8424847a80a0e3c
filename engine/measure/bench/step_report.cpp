// A step bench as JSON and as text.
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/measure/bench/cold_reads_report.h"
#include "engine/measure/bench/report_parts.h"
#include "engine/measure/bench/step_bench.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const StepRow& row) {
  ordered_json out = {{"strategy", row.strategy.text()},
                      {"context", row.context_len},
                      {"n", row.strategy.draft.nodes},
                      {"launch", name_of(row.launch)},
                      {"refused_because", row.refused_because}};
  if (!row.refused_because.empty()) {
    return out;
  }
  out["time_us"] = summary_json(row.time);
  out["verification_us"] = summary_json(row.verification);
  out["verification_over_autoregressive"] = or_null(row.verification_over_ar);
  out["bytes"] = row.step_bytes;
  out["bound_us"] = or_null(row.bound_us);
  out["share_of_bandwidth"] =
      row.bound_us ? ordered_json(*row.bound_us / row.time.median) : ordered_json();
  out["over_autoregressive"] = or_null(row.over_ar);
  out["tokens"] = row.tokens;
  out["tokens_per_second"] = row.tokens / row.time.median * 1e6;
  return out;
}

std::string column(const char* form, const std::optional<double>& value) {
  const std::string text = formatted(form, value.value_or(0.0));
  return value ? text : std::string(text.size() - 1, ' ') + "-";
}

std::string line_of(const StepRow& row) {
  const std::string line = formatted("%7lld  %-32s", static_cast<long long>(row.context_len),
                                     row.strategy.text().c_str());
  if (!row.refused_because.empty()) {
    return line + " " + row.refused_because + "\n";
  }
  const std::optional<double> share =
      row.bound_us ? std::optional<double>(100.0 * *row.bound_us / row.time.median) : std::nullopt;
  return line + " " + summary_text(row.time) + column(" %7.0f", share) +
         column(" %8.2f", row.over_ar) + " " + summary_text(row.verification) +
         column(" %8.2f", row.verification_over_ar) +
         formatted(" %4.0f %10.1f  %s\n", row.tokens, row.tokens / row.time.median * 1e6,
                   name_of(row.launch));
}

}  // namespace

std::string step_bench_json(const StepBench& b) {
  ordered_json rows = ordered_json::array();
  for (const StepRow& row : b.rows) {
    rows.push_back(json_of(row));
  }
  ordered_json out = head_json("step", b, b.options.geometry);
  out["samples"] = b.options.samples;
  out["seed"] = b.options.seed;
  out["interval"] = kMedianInterval;
  out["cold_reads"] = cold_reads_json(b.cold_reads);
  out["rows"] = rows;
  return out.dump(1) + "\n";
}

std::string step_bench_text(const StepBench& b) {
  std::string out =
      head_text("whole steps of " + b.options.geometry, b, "", "us") +
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
