#include "engine/analyse/replay/report.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/io/formatted.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

const ContextBucket& bucket_of(const PlanTable& table, std::int64_t bucket) {
  return table.buckets[static_cast<std::size_t>(bucket)];
}

json texts_of(const std::vector<Strategy>& strategies) {
  json out = json::array();
  for (const Strategy& strategy : strategies) {
    out.push_back(strategy.text());
  }
  return out;
}

json json_of(const PlanTable& table, const ReplayRow& row) {
  const ContextBucket& bucket = bucket_of(table, row.bucket);
  return {{"bucket", row.bucket},
          {"context", {bucket.low, bucket.high}},
          {"class", name_of(row.precision)},
          {"rank", row.rank},
          {"strategy", row.choices.front().text()},
          {"passed_over", texts_of(row.passed_over)},
          {"planned", row.planned_throughput},
          {"planned_first", row.planned_first_throughput},
          {"requests", row.requests},
          {"not_recorded", row.not_recorded},
          {"tokens", row.tokens},
          {"base", row.base},
          {"static_best", row.static_best},
          {"best_r", row.best_r.throughput},
          {"transitions", row.best_r.transitions},
          {"moved", row.best_r.moved},
          {"best_p", row.best_p.throughput},
          {"transitions_p", row.best_p.transitions},
          {"moved_p", row.best_p.moved},
          {"no_speculation", row.no_speculation}};
}

// Throughput, and what it gains over the baseline.
std::string column(double throughput, double base) {
  return formatted("%9.0f %+6.1f %%", throughput, 100.0 * (throughput / base - 1.0));
}

std::string line_of(const PlanTable& table, const ReplayRow& row) {
  const std::string context = name_of(bucket_of(table, row.bucket));
  return formatted("%-12s %-13s %4lld %8lld %6.0f %6.0f", context.c_str(), name_of(row.precision),
                   static_cast<long long>(row.rank), static_cast<long long>(row.requests),
                   row.no_speculation, row.base) +
         column(row.static_best, row.base) + column(row.best_r.throughput, row.base) +
         column(row.best_p.throughput, row.base) +
         formatted("  %3lld %3lld%s\n", static_cast<long long>(row.best_r.moved),
                   static_cast<long long>(row.best_p.moved),
                   row.not_recorded == 0
                       ? ""
                       : ("  " + std::to_string(row.not_recorded) + " not recorded").c_str());
}

// How much of the table was played, and where not by a cell's first tuple, by which and why.
std::string played_text(const PlanTable& table, const Replay& replay) {
  const std::size_t cells = replay.rows.size() + replay.gaps.size();
  std::string out =
      formatted("played %zu of %zu cells, %lld by their first tuple\n", replay.rows.size(), cells,
                static_cast<long long>(played_by_first(replay)));
  for (const ReplayRow& row : replay.rows) {
    const std::size_t passed = row.passed_over.size();
    if (passed == 0) {
      continue;
    }
    const std::string others = passed > 1 ? formatted(" and %zu more", passed - 1) : std::string();
    out += std::string(name_of(row.precision)) + " at " + name_of(bucket_of(table, row.bucket)) +
           formatted(" by rank %lld, ", static_cast<long long>(row.rank)) +
           row.choices.front().text() +
           formatted(
               ", planned at %+.1f %% of the first: passed over, as nobody recorded a walk "
               "of them there, ",
               100.0 * (row.planned_throughput / row.planned_first_throughput - 1.0)) +
           row.passed_over.front().text() + others + "\n";
  }
  return out;
}

// Cells with one reason stand together.
std::string gaps_text(const PlanTable& table, const std::vector<ReplayGap>& gaps) {
  std::map<std::pair<PrecisionClass, std::string>, std::string> buckets;
  for (const ReplayGap& gap : gaps) {
    std::string& names = buckets[{gap.precision, gap.reason}];
    names += (names.empty() ? "" : ", ") + name_of(bucket_of(table, gap.bucket));
  }
  std::string out;
  for (const auto& [cell, names] : buckets) {
    out += "not played: " + std::string(name_of(cell.first)) + " at " + names + ": " + cell.second +
           "\n";
  }
  return out;
}

json json_of(const GuardConstants& g) {
  return {{"alpha", g.alpha},
          {"drop_ratio", g.drop_ratio},
          {"warmup", g.warmup},
          {"hysteresis", g.hysteresis},
          {"max_transitions", g.max_transitions}};
}

json json_of(const GuardSetting& s) {
  const Replay& replay = s.replay;
  return {{"setting", s.name},
          {"guard", json_of(s.guard)},
          {"best_r", replay.best_r.throughput},
          {"gain", replay.best_r_gain},
          {"transitions", replay.best_r.transitions},
          {"best_p", replay.best_p.throughput},
          {"gain_p", replay.best_p_gain},
          {"transitions_p", replay.best_p.transitions},
          {"over_static", s.best_r.over_static},
          {"over_static_p", s.best_p.over_static},
          {"below_plain", s.best_r.below_plain},
          {"below_plain_p", s.best_p.below_plain},
          {"paper_throughput", s.paper_throughput},
          {"paper_moves", s.paper_moves}};
}

std::string policy_columns(const Refined& policy, double gain, const GuardSetting::Gain& over) {
  return formatted("%8.0f %+6.1f %+6.1f %6lld %6lld", policy.throughput, 100.0 * gain,
                   100.0 * over.over_static, static_cast<long long>(policy.transitions),
                   static_cast<long long>(over.below_plain));
}

}  // namespace

json replay_json(const PlanTable& table, const Replay& replay) {
  json out = {{"hardware", table.hardware},
              {"model", table.model},
              {"acceptance_pair", table.acceptance_pair},
              {"concurrency", table.concurrency},
              {"cells", replay.rows.size() + replay.gaps.size()},
              {"played", replay.rows.size()},
              {"played_by_first", played_by_first(replay)},
              {"rows", json::array()},
              {"gaps", json::array()},
              {"mean_gain",
               {{"static_best", replay.static_best_gain},
                {"best_r", replay.best_r_gain},
                {"best_p", replay.best_p_gain}}}};
  for (const ReplayRow& row : replay.rows) {
    out["rows"].push_back(json_of(table, row));
  }
  for (const ReplayGap& gap : replay.gaps) {
    out["gaps"].push_back(
        {{"bucket", gap.bucket}, {"class", name_of(gap.precision)}, {"reason", gap.reason}});
  }
  return out;
}

std::string replay_text(const PlanTable& table, const Replay& replay) {
  std::string out =
      table.model + " on " + table.hardware + ", walks of " + table.acceptance_pair +
      ": tokens a second" +
      (table.concurrency > 1 ? " of " + std::to_string(table.concurrency) + " requests at a time"
                             : "") +
      ", gain over the fixed baseline; requests that the guard "
      "moved\nstatic: the cell's best tuple with recorded walks, of that rank; best+R: refined by "
      "moves to the next ranked tuple (Sparse Speculative Verification); "
      "best+P: to what promises "
      "most, plain decoding included\n\n" +
      "context      class         rank requests  plain   base          static"
      "           best+R           best+P    R   P\n";
  for (const ReplayRow& row : replay.rows) {
    out += line_of(table, row);
  }
  out += formatted("\nmean gain over base: static %+.1f %%, best+R %+.1f %%, best+P %+.1f %%\n",
                   100.0 * replay.static_best_gain, 100.0 * replay.best_r_gain,
                   100.0 * replay.best_p_gain) +
         played_text(table, replay);
  if (!table.batched.empty()) {
    out +=
        "played one request at a time: the table's tuples for several are played by --concurrency "
        "and run in a batch (generate --prompts --table, bench batch --table)\n";
  }
  return out + gaps_text(table, replay.gaps);
}

json settings_json(const std::vector<GuardSetting>& settings) {
  json out = json::array();
  for (const GuardSetting& s : settings) {
    out.push_back(json_of(s));
  }
  return out;
}

std::string settings_text(const std::vector<GuardSetting>& settings) {
  std::string out =
      "\nthe guard's constants, one at a time: tokens a second, % over base, % over static, moves, "
      "rows below plain decoding\n"
      "guard                         best+R                              best+P              the "
      "paper's, moves\n";
  for (const GuardSetting& s : settings) {
    out += formatted("%-16s", s.name.c_str()) +
           policy_columns(s.replay.best_r, s.replay.best_r_gain, s.best_r) + " " +
           policy_columns(s.replay.best_p, s.replay.best_p_gain, s.best_p) +
           formatted(" %8.1f %3lld\n", s.paper_throughput, static_cast<long long>(s.paper_moves));
  }
  return out;
}

}  // namespace versieve::engine
