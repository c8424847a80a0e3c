// What the comparison of points says: sentences, a table of text, JSON.
#include <algorithm>
#include <cmath>
#include <map>

#include "engine/analyse/compare/point_comparison.h"
#include "engine/analyse/fit/statistics.h"
#include "engine/io/formatted.h"
#include "model/words/range_text.h"

namespace versieve::engine {
namespace {

std::string plain(std::size_t count) {
  return std::to_string(count);
}

std::string row_text(const ComparedSide& base, const PointComparison& comparison,
                     const ComparedTuple& tuple) {
  const std::string interval =
      tuple.ratio_interval
          ? formatted("(%.3f-%.3f)", tuple.ratio_interval->low, tuple.ratio_interval->high)
          : std::string("             ");
  return formatted("  %7.3f %-14s %10s %10s  ", tuple.ratio(), interval.c_str(),
                   value_text(tuple.base_value, comparison.figure).c_str(),
                   value_text(tuple.other_value, comparison.figure).c_str()) +
         tuple_text(base.points[tuple.base].key) +
         (tuple.change == Change::kNotJudged ? "; " + tuple.not_judged_because : std::string()) +
         "\n";
}

std::string side_text(const ComparedSide& side) {
  std::string since, until;
  for (const RunRecord& run : side.runs) {
    const std::string day = run.started_utc.substr(0, 10);
    since = since.empty() ? day : std::min(since, day);
    until = std::max(until, day);
  }
  std::string text = side.database + ": " + side.device + ", " + plain(side.points.size()) +
                     " points of " + plain(side.runs.size()) +
                     (side.runs.size() == 1 ? " run" : " runs") + ", " +
                     range_text(since, until);
  for (const std::string& other : side.other_devices) {
    text += "; points of " + other + " are left out";
  }
  return text;
}

// Median ratio of each workload.
std::vector<std::pair<WorkloadKind, std::vector<double>>> by_workload(
    const ComparedSide& base, const PointComparison& comparison) {
  std::map<WorkloadKind, std::vector<double>> ratios;
  for (const ComparedTuple& tuple : comparison.tuples) {
    ratios[base.points[tuple.base].key.workload].push_back(tuple.ratio());
  }
  return {ratios.begin(), ratios.end()};
}

nlohmann::json optional_number(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json key_json(const PointKey& key) {
  return {{"workload", name_of(key.workload)},
          {"model", key.model},
          {"pair", key.pair},
          {"regime", key.regime},
          {"split", key.split},
          {"strategy", key.strategy},
          {"dtype", name_of(key.dtype)},
          {"backend", name_of(key.backend)},
          {"cache_state", name_of(key.cache_state)},
          {"launch", name_of(key.launch)},
          {"context_len", key.context_len},
          {"num_queries", key.num_queries},
          {"overlap", optional_number(key.overlap)},
          {"temperature", key.temperature}};
}

nlohmann::json side_json(const ComparedSide& side) {
  nlohmann::json runs = nlohmann::json::array();
  for (const RunRecord& run : side.runs) {
    runs.push_back(run.uuid);
  }
  return {{"database", side.database},
          {"device", side.device},
          {"points", side.points.size()},
          {"runs", runs},
          {"other_devices", side.other_devices}};
}

}  // namespace

const char* word_of(Change change, ComparedFigure figure) {
  const bool is_time = figure == ComparedFigure::kTime;
  switch (change) {
    case Change::kWorse:
      return is_time ? "slower" : figure == ComparedFigure::kTokens ? "fewer" : "more";
    case Change::kBetter:
      return is_time ? "faster" : figure == ComparedFigure::kTokens ? "more" : "fewer";
    case Change::kSame:
      return "same within noise";
    case Change::kNotJudged:
      return "not judged";
  }
  return "";
}

std::string tuple_text(const PointKey& key) {
  std::string text = std::string(name_of(key.workload)) + " " + key.strategy;
  if (key.context_len > 0) {
    text += ", L " + std::to_string(key.context_len);
  }
  if (key.num_queries > 0) {
    text += ", N " + std::to_string(key.num_queries);
  }
  if (key.overlap) {
    text += formatted(", rho %g", *key.overlap);
  }
  if (key.temperature > 0.0) {
    text += formatted(", temperature %g", key.temperature);
  }
  text += ", " + key.model;
  for (const std::string& word :
       {key.pair.substr(0, 8), key.regime == "synthetic" ? std::string() : key.regime, key.split,
        std::string(key.dtype == Dtype::kUnstated ? "" : name_of(key.dtype)),
        std::string(key.backend == Backend::kCuda ? "" : name_of(key.backend)),
        std::string(key.cache_state == CacheState::kAsIs ? "" : name_of(key.cache_state)),
        std::string(key.launch == LaunchMode::kUnstated ? "" : name_of(key.launch))}) {
    text += word.empty() ? std::string() : " " + word;
  }
  return text;
}

std::string rule_text(const PointComparison& comparison) {
  const RunNoise& noise = comparison.noise;
  const std::string share = formatted("%.1f %%", 100.0 * noise.share);
  const std::string between = noise.is_given ? share + ", as it was asked for"
                              : noise.repeats > 0
                                  ? share + ", within which 95 % of " +
                                        std::to_string(noise.repeats) + " repeated measurements lie"
                                  : share + ", assumed, as too few tuples were measured twice";
  std::string rule = "Same within noise: the two differ by no more than " + between;
  if (comparison.figure == ComparedFigure::kTime) {
    rule += ", or by what their 95 % intervals let happen by chance (5 % for all " +
            plain(comparison.tuples.size()) + " tuples together, by Holm)";
  }
  return rule + ".";
}

std::string counts_text(const PointComparison& comparison) {
  const auto said = [&](Change change) {
    return plain(comparison.count_of(change)) + " " + word_of(change, comparison.figure);
  };
  std::string text = plain(comparison.tuples.size()) + " tuples in both: " + said(Change::kWorse) +
                     ", " + said(Change::kSame) + ", " + said(Change::kBetter);
  if (comparison.count_of(Change::kNotJudged) > 0) {
    text += ", " + said(Change::kNotJudged);
  }
  return text + "; " + plain(comparison.only_base.size()) + " in the first alone, " +
         plain(comparison.only_other.size()) + " in the second alone";
}

std::string value_text(double value, ComparedFigure figure) {
  if (figure == ComparedFigure::kTokens) {
    return formatted("%.3f", value);
  }
  const bool is_time = figure == ComparedFigure::kTime;
  const double unit = is_time ? (value < 1e6 ? 1e3 : 1e6) : (value < 1e9 ? 1e6 : 1e9);
  const char* name = is_time ? (unit == 1e3 ? "us" : "ms") : (unit == 1e6 ? "MB" : "GB");
  return formatted("%.2f %s", value / unit, name);
}

std::string comparison_text(const ComparedSide& base, const ComparedSide& other,
                            const PointComparison& comparison, std::int64_t rows) {
  std::string out = side_text(base) + "\n" + side_text(other) + "\n";
  for (const std::string& difference : comparison.what_differs) {
    out += "  " + difference + "\n";
  }
  out += std::string("Of ") + name_of(comparison.figure) + ", " + counts_text(comparison) + ".\n" +
         rule_text(comparison) + "\n";
  for (const auto& [workload, ratios] : by_workload(base, comparison)) {
    out += formatted("  %-16s median ratio %.3f of %zu\n", name_of(workload), *median(ratios),
                     ratios.size());
  }
  for (const Change change : {Change::kWorse, Change::kNotJudged, Change::kBetter, Change::kSame}) {
    const std::size_t count = comparison.count_of(change);
    const bool is_listed = count > 0 && (rows == 0 || change != Change::kSame);
    std::size_t left = rows == 0 ? count : std::min(count, static_cast<std::size_t>(rows));
    if (!is_listed) {
      continue;
    }
    out += std::string("\n") + word_of(change, comparison.figure) + ", " + plain(left) + " of " +
           plain(count) + ": second / first (95 %), first, second\n";
    for (const ComparedTuple& tuple : comparison.tuples) {
      if (tuple.change == change && left > 0) {
        out += row_text(base, comparison, tuple);
        --left;
      }
    }
  }
  return out;
}

nlohmann::json comparison_json(const ComparedSide& base, const ComparedSide& other,
                               const PointComparison& comparison) {
  nlohmann::json tuples = nlohmann::json::array();
  for (const ComparedTuple& tuple : comparison.tuples) {
    nlohmann::json row = {{"key", key_json(base.points[tuple.base].key)},
                          {"first", tuple.base_value},
                          {"second", tuple.other_value},
                          {"ratio", tuple.ratio()},
                          {"change", name_of(tuple.change)}};
    if (tuple.ratio_interval) {
      row["interval"] = {tuple.ratio_interval->low, tuple.ratio_interval->high};
    }
    if (tuple.change == Change::kNotJudged) {
      row["not_judged_because"] = tuple.not_judged_because;
    }
    tuples.push_back(std::move(row));
  }
  nlohmann::json workloads = nlohmann::json::array();
  for (const auto& [workload, ratios] : by_workload(base, comparison)) {
    workloads.push_back({{"workload", name_of(workload)},
                         {"tuples", ratios.size()},
                         {"median_ratio", *median(ratios)}});
  }
  return {{"first", side_json(base)},
          {"second", side_json(other)},
          {"figure", name_of(comparison.figure)},
          {"noise",
           {{"share", comparison.noise.share},
            {"repeats", comparison.noise.repeats},
            {"assumed", comparison.noise.is_assumed()}}},
          {"rule", rule_text(comparison)},
          {"differs", comparison.what_differs},
          {"matched", comparison.tuples.size()},
          {"worse", comparison.count_of(Change::kWorse)},
          {"same", comparison.count_of(Change::kSame)},
          {"better", comparison.count_of(Change::kBetter)},
          {"not_judged", comparison.count_of(Change::kNotJudged)},
          {"only_first", comparison.only_base.size()},
          {"only_second", comparison.only_other.size()},
          {"by_workload", workloads},
          {"tuples", tuples}};
}

}  // namespace versieve::engine
