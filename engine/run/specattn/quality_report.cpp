// The answer of `versieve quality` as JSON and as a table.
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/run/specattn/quality.h"

namespace versieve::engine {
namespace {

nlohmann::ordered_json row_json(const QualityRow& row, double dense_loss) {
  return {{"method", row.method},
          {"p", row.p},
          {"tokens", row.tokens},
          {"loss_nats", row.loss},
          {"perplexity", std::exp(row.loss)},
          {"perplexity_rise", std::exp(row.loss - dense_loss) - 1.0},
          {"agreement", row.agreement},
          {"right", row.right},
          {"answers", row.answers},
          {"answers_right", row.answers_right},
          {"reads_saved", row.saved},
          {"reads_saved_sparse_layers", row.saved_sparse},
          {"cumulative_perplexity", row.perplexity}};
}

// A line a method, the perplexity of the tokens up to each place.
std::string curve_text(const QualityGroup& group) {
  if (group.places.empty()) {
    return {};
  }
  std::string text = "  perplexity of the first tokens\n  method        p";
  for (const std::int64_t place : group.places) {
    text += formatted(" %9lld", static_cast<long long>(place));
  }
  text += "\n";
  for (const QualityRow& row : group.rows) {
    text += formatted("  %-9s %5.2f", row.method.c_str(), row.p);
    for (const double perplexity : row.perplexity) {
      text += formatted(" %9.4f", perplexity);
    }
    text += "\n";
  }
  return text;
}

std::string row_line(const QualityRow& row, double dense_loss) {
  return formatted("  %-9s %5.2f %9.1f %% %8.1f %% %10.4f %+9.2f %% %8.2f %% %8.2f %% %8.2f %%\n",
                   row.method.c_str(), row.p, 100.0 * row.saved, 100.0 * row.saved_sparse,
                   std::exp(row.loss), 100.0 * (std::exp(row.loss - dense_loss) - 1.0),
                   100.0 * row.agreement, 100.0 * row.right, 100.0 * row.answers_right);
}

}  // namespace

nlohmann::ordered_json quality_json(const QualityReport& report) {
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const QualityGroup& group : report.groups) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const QualityRow& row : group.rows) {
      rows.push_back(row_json(row, group.rows.front().loss));
    }
    groups.push_back({{"group", group.name}, {"places", group.places}, {"rows", rows}});
  }
  return {{"format", "versieve selection quality"},
          {"model", report.model},
          {"backend", report.backend},
          {"device", report.device},
          {"dtype", report.dtype},
          {"texts", report.texts},
          {"lookahead", report.lookahead},
          {"scored", report.scored},
          {"chunk", report.chunk},
          {"iterations", report.iterations},
          {"dense_layers", report.dense_layers},
          {"groups", groups}};
}

std::string quality_text(const QualityReport& report) {
  std::string text;
  for (const QualityGroup& group : report.groups) {
    text += group.name + ", " + std::to_string(group.rows.front().tokens) + " tokens, " +
            std::to_string(group.rows.front().answers) + " of them answers\n" +
            "  method        p       saved  in sparse perplexity        rise    agrees     right  "
            "answers\n";
    for (const QualityRow& row : group.rows) {
      text += row_line(row, group.rows.front().loss);
    }
    text += curve_text(group);
  }
  return text;
}

}  // namespace versieve::engine
