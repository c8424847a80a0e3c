// The answer of `versieve quality --strategy` as JSON and as tables.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/run/quality/lossy_quality.h"

namespace versieve::engine {
namespace {

nlohmann::ordered_json json_of(const Interval& interval) {
  return {interval.low, interval.high};
}

nlohmann::ordered_json row_json(const LossyQualityRow& row) {
  const Strategy strategy = Strategy::parse(row.strategy);
  nlohmann::ordered_json json = {
      {"strategy", row.strategy},    {"precision", name_of(strategy.precision())},
      {"read_as", row.read_as},      {"tokens", row.tokens},
      {"kl_nats", row.divergence},   {"kl_nats_95", json_of(row.divergence_interval)},
      {"loss_nats", row.loss},       {"perplexity", std::exp(row.loss)},
      {"loss_rise_nats", row.rise},  {"loss_rise_nats_95", json_of(row.rise_interval)},
      {"same_token", row.agreement}, {"same_token_95", json_of(row.agreement_interval)}};
  if (row.answers) {
    const Answers& a = *row.answers;
    json["questions"] = a.questions;
    json["right"] = a.right;
    json["accuracy"] = a.share();
    json["accuracy_95"] = json_of(share_interval(a.right, a.questions));
    json["gained"] = a.gained;
    json["lost"] = a.lost;
    json["accuracy_change"] = a.change();
    json["accuracy_change_95"] = json_of(change_interval(a.gained, a.lost, a.questions));
  }
  return json;
}

std::string row_line(const LossyQualityRow& row, int width) {
  std::string line = formatted("  %-*s %8.5f %10.4f %+8.4f %7.2f %%", width, row.strategy.c_str(),
                               row.divergence, std::exp(row.loss), row.rise, 100.0 * row.agreement);
  if (row.answers) {
    const Answers& a = *row.answers;
    const Interval share = share_interval(a.right, a.questions);
    const Interval change = change_interval(a.gained, a.lost, a.questions);
    line += formatted(" %6.1f %% (%.0f-%.0f) %+6.1f (%+.1f to %+.1f)", 100.0 * a.share(),
                      100.0 * share.low, 100.0 * share.high, 100.0 * a.change(), 100.0 * change.low,
                      100.0 * change.high);
  }
  return line + "\n";
}

std::string title_of(const QualitySet& set) {
  std::string title = set.asks ? set.name : set.name + " texts";
  if (!set.bucket.empty()) {
    title += ", " + set.bucket + (set.asks ? " tokens back" : " tokens decoded");
  }
  const LossyQualityRow& first = set.rows.front();
  if (first.answers) {
    title += formatted(": %lld questions", static_cast<long long>(first.answers->questions));
  }
  title += formatted("%s %lld tokens scored", first.answers ? "," : ":",
                     static_cast<long long>(first.tokens));
  if (set.left_out > 0) {
    title += formatted("; %lld questions left out, longer than the model takes",
                       static_cast<long long>(set.left_out));
  }
  return title + "\n";
}

Estimate95 estimate(double value, const Interval& interval) {
  return {value, interval.low, interval.high};
}

QualityPoint point_of(const QualitySet& set, const LossyQualityRow& row) {
  QualityPoint point{.set = set.asks ? set.name : "texts: " + set.name,
                     .distance = set.bucket,
                     .strategy = row.strategy,
                     .set_sha256 = set.sha256,
                     .read_as = row.read_as,
                     .tokens = row.tokens,
                     .loss_nats = row.loss,
                     .kl_nats = estimate(row.divergence, row.divergence_interval),
                     .rise_nats = estimate(row.rise, row.rise_interval),
                     .same_token = estimate(row.agreement, row.agreement_interval),
                     .answers = {}};
  if (row.answers) {
    const Answers& a = *row.answers;
    point.answers = QualityAnswers{
        .questions = a.questions,
        .right = a.right,
        .gained = a.gained,
        .lost = a.lost,
        .accuracy = estimate(a.share(), share_interval(a.right, a.questions)),
        .change = estimate(a.change(), change_interval(a.gained, a.lost, a.questions))};
  }
  return point;
}

}  // namespace

std::vector<QualityPoint> quality_points(const LossyQualityReport& report, const PairId& pair,
                                         const std::string& split) {
  std::vector<QualityPoint> points;
  for (const QualitySet& set : report.sets) {
    for (const LossyQualityRow& row : set.rows) {
      points.push_back(point_of(set, row));
      points.back().pair = pair;
      points.back().split = split;
      points.back().dtype = dtype_of(report.dtype);
      points.back().backend = backend_of(report.backend);
    }
  }
  return points;
}

nlohmann::ordered_json chain_shares_json(const std::vector<ChainShare>& shares) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const ChainShare& one : shares) {
    rows.push_back({{"strategy", one.strategy},
                    {"share", one.share.value},
                    {"share_95", {one.share.low, one.share.high}},
                    {"counted", one.counted}});
  }
  return rows;
}

nlohmann::ordered_json lossy_quality_json(const LossyQualityReport& report) {
  nlohmann::ordered_json sets = nlohmann::ordered_json::array();
  for (const QualitySet& set : report.sets) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const LossyQualityRow& row : set.rows) {
      rows.push_back(row_json(row));
    }
    nlohmann::ordered_json json = {{"set", set.name}, {"kind", set.asks ? "task" : "text"}};
    if (!set.bucket.empty()) {
      json[set.asks ? "tokens_back" : "tokens_decoded"] = set.bucket;
    }
    if (set.asks) {
      json["left_out"] = set.left_out;
    }
    json["sha256"] = set.sha256;
    json["rows"] = rows;
    sets.push_back(json);
  }
  return {{"format", "versieve strategy quality"},
          {"schema", 1},
          {"model", report.model},
          {"backend", report.backend},
          {"device", report.device},
          {"dtype", report.dtype},
          {"scored", report.scored},
          {"decoded", report.decoded},
          {"questions", report.questions},
          {"tokens_run", report.tokens_run},
          {"chain_shares", chain_shares_json(report.chain_shares)},
          {"sets", sets}};
}

std::string lossy_quality_text(const LossyQualityReport& report) {
  std::size_t width = 8;
  for (const QualitySet& set : report.sets) {
    for (const LossyQualityRow& row : set.rows) {
      width = std::max(width, row.strategy.size());
    }
  }
  std::string text;
  for (const QualitySet& set : report.sets) {
    text += (text.empty() ? "" : "\n") + title_of(set) +
            formatted("  %-*s %8s %10s %8s %9s%s\n", static_cast<int>(width), "strategy", "KL",
                      "perplexity", "nats", "same", set.asks ? "    right (95 %)      change" : "");
    for (const LossyQualityRow& row : set.rows) {
      text += row_line(row, static_cast<int>(width));
    }
  }
  return text;
}

}  // namespace versieve::engine
