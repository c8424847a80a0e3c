// A bench of many requests as JSON and as text.
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/measure/bench/batch_bench.h"
#include "engine/measure/bench/cold_reads_report.h"
#include "engine/measure/bench/report_parts.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

const std::string& geometry_of(const BatchBench& b) {
  return b.options.table != nullptr ? b.options.table->model : b.options.geometry;
}

ordered_json json_of(const BatchBenchRow& row) {
  ordered_json out = {{"strategy", row.strategy.text()},
                      {"context", row.context_len},
                      {"requests", row.requests},
                      {"refused_because", row.refused_because}};
  if (!row.refused_because.empty()) {
    return out;
  }
  const auto us = [](double seconds) { return 1e6 * seconds; };
  if (!row.role.empty()) {
    out["role"] = row.role;
    out["predicted_us"] = {{"mean", *row.predicted_us},
                           {"low", row.predicted_interval_us.low},
                           {"high", row.predicted_interval_us.high}};
  }
  out["time_us"] = summary_json(row.time);
  out["host_us"] = {{"enqueue", us(row.spent.enqueue)},
                    {"ahead", us(row.spent.ahead)},
                    {"accept", us(row.spent.accept)},
                    {"commit", us(row.spent.commit)},
                    {"draft", us(row.spent.draft)}};
  out["tokens"] = row.tokens;
  out["tokens_per_second"] = row.tokens_per_second();
  out["over_one_request"] = or_null(row.over_one);
  out["shared_bytes"] = row.shared_bytes;
  out["request_bytes"] = row.request_bytes;
  out["bytes"] = row.bytes();
  out["bound_us"] = or_null(row.bound_us);
  out["watts"] = or_null(row.watts);
  out["tokens_per_joule"] = or_null(row.tokens_per_joule());
  return out;
}

std::string line_of(const BatchBenchRow& row) {
  std::string line = formatted("%7lld  %-28s %4lld", static_cast<long long>(row.context_len),
                               row.strategy.text().c_str(), static_cast<long long>(row.requests));
  if (!row.refused_because.empty()) {
    return line + "  " + row.refused_because + "\n";
  }
  const double mib = 1.0 / (1 << 20);
  line += " " + summary_text(row.time) + formatted(" %10.1f", row.tokens_per_second());
  line += row.over_one ? formatted(" %6.2f", *row.over_one) : std::string("      -");
  line += formatted(" %8.0f %8.1f", mib * row.shared_bytes, mib * row.request_bytes);
  line += row.bound_us ? formatted(" %5.0f", 100.0 * *row.bound_us / row.time.median)
                       : std::string("     -");
  return line + formatted("  %7.0f %7.0f %6.0f %7.0f\n", 1e6 * row.spent.enqueue,
                          1e6 * row.spent.accept, 1e6 * row.spent.commit, 1e6 * row.spent.draft);
}

// By the GPU's own count, everything on its board in it.
std::string energy_text(const BatchBench& b) {
  std::string out;
  for (const BatchBenchRow& row : b.rows) {
    if (row.watts) {
      out += formatted("%7lld  %-28s %4lld %6.0f %10.2f\n", static_cast<long long>(row.context_len),
                       row.strategy.text().c_str(), static_cast<long long>(row.requests),
                       *row.watts, *row.tokens_per_joule());
    }
  }
  return out.empty() ? "\nthis GPU does not tell its energy\n"
                     : "\n      L  strategy                        B  watts   tokens/J\n" + out;
}

ordered_json json_of(const BatchPlayed& p) {
  return {{"context", p.context_len},         {"requests", p.requests},
          {"planned", p.planned.text()},      {"tokens_per_second", p.tokens_per_second},
          {"over_baseline", p.over_baseline}, {"over_plain", p.over_plain}};
}

// Of each number of requests the planned tuple beside the other two, and its prediction.
std::string played_text(const BatchBench& b) {
  std::string out =
      "\nthe table, played: total tokens/s, the tokens of a step as it has them\n"
      "      L    B  planned                       tokens/s  over baseline  over plain\n";
  for (const BatchPlayed& p : b.played()) {
    out += formatted("%7lld %4lld  %-28s %9.1f %14.3f %11.3f\n",
                     static_cast<long long>(p.context_len), static_cast<long long>(p.requests),
                     p.planned.text().c_str(), p.tokens_per_second, p.over_baseline, p.over_plain);
  }
  std::int64_t timed = 0, held = 0;
  for (const BatchBenchRow& row : b.rows) {
    if (row.refused_because.empty() && row.predicted_us) {
      timed += 1;
      held += row.predicted_interval_us.low <= row.time.median &&
              row.time.median <= row.predicted_interval_us.high;
      out += formatted("%7lld %4lld  %-8s %-28s measured %9.1f us, predicted %9.1f [%.1f, %.1f]\n",
                       static_cast<long long>(row.context_len),
                       static_cast<long long>(row.requests), row.role.c_str(),
                       row.strategy.text().c_str(), row.time.median, *row.predicted_us,
                       row.predicted_interval_us.low, row.predicted_interval_us.high);
    }
  }
  return out + formatted("%lld of %lld steps lie within the table's 90 %% interval\n",
                         static_cast<long long>(held), static_cast<long long>(timed));
}

}  // namespace

std::string batch_bench_json(const BatchBench& b) {
  ordered_json rows = ordered_json::array();
  for (const BatchBenchRow& row : b.rows) {
    rows.push_back(json_of(row));
  }
  ordered_json played = ordered_json::array();
  for (const BatchPlayed& p : b.played()) {
    played.push_back(json_of(p));
  }
  ordered_json out = head_json("batch", b, geometry_of(b));
  out["samples"] = b.options.samples;
  out["seed"] = b.options.seed;
  out["temperature"] = b.options.temperature;
  out["interval"] = kMedianInterval;
  out["cold_reads"] = cold_reads_json(b.cold_reads);
  out["rows"] = rows;
  if (b.options.table != nullptr) {
    out["played"] = played;
  }
  return out.dump(1) + "\n";
}

std::string batch_bench_text(const BatchBench& b) {
  std::string out =
      head_text("steps of many requests of " + geometry_of(b), b,
                formatted(", temperature %g", b.options.temperature), "us") +
      "      L  strategy                        B      step  [95 % interval]        tokens/s"
      " over 1   shared  request   bw%  enqueue  accept commit   draft\n";
  for (const BatchBenchRow& row : b.rows) {
    out += line_of(row);
  }
  out +=
      "shared: MiB that a step reads once, weights and the draft's weights a pass; request: MiB of "
      "each request's keys and values. bw%: those bytes at the rate of this machine's longest "
      "read, of the step.\nenqueue, accept, commit, draft: where the step's time went by the "
      "host's clock; accept and draft wait for the device.\n";
  out += cold_reads_line(b.cold_reads);
  out += b.options.energy ? energy_text(b) : "";
  return b.options.table != nullptr ? out + played_text(b) : out;
}

}  // namespace versieve::engine
