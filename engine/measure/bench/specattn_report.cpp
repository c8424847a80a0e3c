// A SpecAttn bench as JSON and as text.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/io/formatted.h"
#include "engine/measure/bench/report_parts.h"
#include "engine/measure/bench/specattn_bench.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;

// Tokens a second over those of the first row of that kind at the same context.
template <class Kind>
std::optional<double> times_over(const SpecAttnBench& bench, const SpecAttnRow& row,
                                 const Kind& kind) {
  const auto base =
      std::find_if(bench.rows.begin(), bench.rows.end(), [&](const SpecAttnRow& other) {
        return other.context_len == row.context_len &&
               other.strategy.attention == AttentionMethod::kDense && other.method.empty() &&
               kind(other.strategy);
      });
  return base == bench.rows.end()
             ? std::nullopt
             : std::optional<double>(row.tokens_per_second() / base->tokens_per_second());
}

std::optional<double> over_plain(const SpecAttnBench& bench, const SpecAttnRow& row) {
  return times_over(bench, row, [](const Strategy& s) { return !s.draft.speculates(); });
}
std::optional<double> over_dense(const SpecAttnBench& bench, const SpecAttnRow& row) {
  return times_over(bench, row, [&](const Strategy& s) {
    return s.draft.speculates() &&
           (s.draft == row.strategy.draft || !row.strategy.draft.speculates());
  });
}

std::string times_text(const std::optional<double>& value) {
  return value ? formatted("%7.3f", *value) : "      -";
}

std::string label(const SpecAttnRow& row) {
  return row.strategy.text() + (row.method.empty() ? "" : " (" + row.method + ")");
}

}  // namespace

std::string specattn_bench_json(const SpecAttnBench& bench) {
  ordered_json rows = ordered_json::array();
  for (const SpecAttnRow& row : bench.rows) {
    rows.push_back({{"strategy", row.strategy.text()},
                    {"method", row.method.empty() ? ordered_json() : ordered_json(row.method)},
                    {"context", row.context_len},
                    {"step_us",
                     {{"median", row.step.median},
                      {"low", row.step.median_low},
                      {"high", row.step.median_high}}},
                    {"tokens", row.tokens},
                    {"tokens_per_second", row.tokens_per_second()},
                    {"over_plain", or_null(over_plain(bench, row))},
                    {"over_dense_speculation", or_null(over_dense(bench, row))},
                    {"reads_saved", row.reads_saved}});
  }
  std::vector<std::string> texts;
  for (const std::filesystem::path& text : bench.options.texts) {
    texts.push_back(text.filename().string());
  }
  ordered_json out = head_json("specattn", bench, bench.options.geometry);
  out["draft"] = bench.options.draft.filename().string();
  out["texts"] = texts;
  out["layer_map"] = bench.layer_map;
  out["samples"] = bench.options.samples;
  out["rows"] = rows;
  return out.dump(1);
}

std::string specattn_bench_text(const SpecAttnBench& bench) {
  std::string text =
      "whole recorded steps of " + bench.options.geometry + " with a real draft, " + bench.device +
      ", " + bench.dtype + "\n" +
      "context  strategy                                    step us [     low,     high]"
      " tokens  tokens/s  x plain  x dense  reads saved\n";
  for (const SpecAttnRow& row : bench.rows) {
    text += formatted("%7lld  %-40s %s %6lld %9.1f  %s  %s  %9.1f %%\n",
                      static_cast<long long>(row.context_len), label(row).c_str(),
                      summary_text(row.step).c_str(), static_cast<long long>(row.tokens),
                      row.tokens_per_second(), times_text(over_plain(bench, row)).c_str(),
                      times_text(over_dense(bench, row)).c_str(), 100.0 * row.reads_saved);
  }
  return text;
}

}  // namespace versieve::engine
