// A planner table played live, as JSON and as tables of text.
#include <nlohmann/json.hpp>

#include "engine/io/formatted.h"
#include "engine/measure/bench/planner_bench.h"
#include "engine/measure/bench/report_parts.h"

namespace versieve::engine {
namespace {

using nlohmann::ordered_json;
using profiler::SampleSummary;

constexpr const char* kTimed =
    "the engine's decoding steps by the host's clock, from the first after the prompt to the last; "
    "prefill and making recordings (graphs) are not part of it";
constexpr const char* kInterval =
    "95 % order statistics of the median over prompts; of fewer than six even the least and "
    "greatest are none, and their count is said instead";
// The least and greatest of n hold the median but once in 2^(n - 1) times.
constexpr std::int64_t kFewestForInterval = 6;

bool has_interval(const SampleSummary& s) {
  return s.count >= kFewestForInterval;
}

ordered_json json_of(const SampleSummary& s) {
  ordered_json out = {
      {"median", s.median}, {"count", s.count}, {"low", nullptr}, {"high", nullptr}};
  if (has_interval(s)) {
    out["low"] = s.median_low;
    out["high"] = s.median_high;
  }
  return out;
}

ordered_json json_of(const std::optional<SampleSummary>& s) {
  return s ? json_of(*s) : ordered_json();
}

ordered_json range_json(const ContextBucket& range) {
  return {range.low, range.high};
}

// "own", or whose it is in its place.
ordered_json acceptance_json(const PlannerBench& b) {
  if (!b.options.synthetic) {
    return {{"kind", "own"}};
  }
  return {{"kind", "synthetic"},
          {"from", name_of(b.options.synthetic->from)},
          {"source", b.options.synthetic->source}};
}

const char* acceptance_word(const PlannerBench& b) {
  return b.options.synthetic ? "synthetic" : "own";
}

ordered_json json_of(const PlannerBench& b, const PlannerCell& cell, const PlannerRow& row) {
  ordered_json out = {{"bucket", cell.bucket},
                      {"context", range_json(cell.range)},
                      {"class", name_of(cell.precision)},
                      {"contender", name_of(row.contender)},
                      {"strategy", row.strategy},
                      {"acceptance", acceptance_word(b)},
                      {"prompts", cell.prompts},
                      {"tokens_per_s", json_of(row.tokens_per_s)},
                      {"pooled_tokens_per_s", row.pooled_tokens_per_s},
                      {"yielded_per_s", row.yielded_per_s},
                      {"tokens_a_step", row.tokens_a_step},
                      {"looping", row.looping()},
                      {"over_plain", json_of(row.over_plain)},
                      {"over_base", json_of(row.over_base)},
                      {"predicted", nullptr},
                      {"within_90", or_null(row.is_within)},
                      {"moved", row.moved},
                      {"promises_text", row.promises_text},
                      {"compared", row.compared},
                      {"same_text", row.same_text},
                      {"texts", ordered_json::array()}};
  for (const PlayedText& text : row.texts) {
    out["texts"].push_back({{"prompt", text.prompt},
                            {"tokens", text.tokens},
                            {"steps", text.steps},
                            {"yielded", text.yielded},
                            {"tokens_per_s", text.tokens_per_s},
                            {"looping", text.looping}});
  }
  if (row.predicted) {
    out["predicted"] = {{"tokens_per_s", row.predicted->tokens_per_s},
                        {"low", row.predicted->low},
                        {"high", row.predicted->high},
                        {"tokens_a_step", row.predicted->tokens_a_step},
                        {"source", name_of(row.predicted->source)}};
  }
  return out;
}

ordered_json coverage_json(const PlannerBench::Coverage& c) {
  return {
      {"within", c.within},
      {"all", c.all},
      {"share", c.all > 0 ? ordered_json(static_cast<double>(c.within) / static_cast<double>(c.all))
                          : ordered_json()}};
}

ordered_json gains_json(const PlannerBench& b,
                        std::optional<double> (PlannerBench::*gain)(Contender) const) {
  return {{"static_best", or_null((b.*gain)(Contender::kStatic))},
          {"best_r", or_null((b.*gain)(Contender::kBestR))},
          {"best_p", or_null((b.*gain)(Contender::kBestP))},
          {"oracle", or_null((b.*gain)(Contender::kOracle))}};
}

ordered_json prompts_json(const PlannerBench& b) {
  ordered_json out = ordered_json::array();
  for (const PlannerBench::BucketPrompts& bucket : b.prompts) {
    for (const PromptPlay& p : bucket.prompts) {
      out.push_back({{"context", range_json(bucket.range)},
                     {"prompt", p.prompt},
                     {"tokens", p.tokens},
                     {"form", name_of(p.form)}});
    }
  }
  return out;
}

ordered_json settings_json(const std::vector<SettingRow>& settings) {
  ordered_json out = ordered_json::array();
  for (const SettingRow& s : settings) {
    out.push_back({{"setting", s.name},
                   {"gain", s.best_r},
                   {"moved", s.moved_r},
                   {"gain_p", s.best_p},
                   {"moved_p", s.moved_p}});
  }
  return out;
}

ordered_json verdicts_json(const PlannerBench& b) {
  ordered_json out = ordered_json::array();
  for (const Verdict& v : b.verdicts()) {
    out.push_back({{"claim", v.claim},
                   {"holds", or_null(v.holds)},
                   {"mean_gain", v.gain.mean},
                   {"low", or_null(v.gain.low)},
                   {"high", or_null(v.gain.high)},
                   {"detail", v.detail}});
  }
  return out;
}

ordered_json divergences_json(const PlannerBench& b) {
  ordered_json out = ordered_json::array();
  for (const TextDivergence& d : b.divergences) {
    out.push_back({{"context", range_json(d.range)},
                   {"prompt", d.prompt},
                   {"strategy", d.strategy},
                   {"reference", d.reference},
                   {"index", d.at.index},
                   {"logit_gap", d.is_promised ? ordered_json(d.at.logit_gap) : ordered_json()},
                   {"promised", d.is_promised}});
  }
  return out;
}

// The least gain at which a column still lines up is -99 %.
std::string gain_text(const std::optional<double>& gain) {
  return gain ? formatted("%+.1f %%", 100.0 * *gain) : "-";
}

std::string share_text(const PlannerBench::Coverage& c) {
  return std::to_string(c.within) + " of " + std::to_string(c.all);
}

// Of 16 places: the interval, or of how many prompts the median is where they are too few for one.
std::string interval_text(const SampleSummary& s) {
  return has_interval(s) ? formatted("[%6.0f, %6.0f]", s.median_low, s.median_high)
                         : formatted("%16s", ("of " + std::to_string(s.count)).c_str());
}

std::string line_of(const PlannerRow& row) {
  std::string line = formatted("  %-7s  %-28s %8.0f %s %6.2f %7.2f %7.2f", name_of(row.contender),
                               row.strategy.c_str(), row.tokens_per_s.median,
                               interval_text(row.tokens_per_s).c_str(), row.tokens_a_step,
                               row.over_plain.median, row.over_base.median);
  if (row.predicted) {
    line += formatted(" %8.0f %8.0f [%6.0f, %6.0f] %-7s", row.yielded_per_s,
                      row.predicted->tokens_per_s, row.predicted->low, row.predicted->high,
                      *row.is_within ? "within" : "outside");
  } else {
    line += formatted(" %8.0f %8s %16s %7s", row.yielded_per_s, "-", "", "");
  }
  if (row.compared > 0) {
    line += formatted(" %lld of %lld", static_cast<long long>(row.same_text),
                      static_cast<long long>(row.compared));
  } else {
    line += " -";
  }
  if (row.looping() > 0) {
    line += formatted(", %lld loop", static_cast<long long>(row.looping()));
  }
  if (row.moved > 0) {
    line += formatted(", moved on %lld", static_cast<long long>(row.moved));
  }
  return line + "\n";
}

std::string cell_text(const PlannerBench& b, const PlannerCell& cell) {
  std::string out = "\n" + name_of(cell.range) + " tokens, " + name_of(cell.precision) + ", " +
                    std::to_string(cell.prompts) + (cell.prompts == 1 ? " prompt" : " prompts");
  if (cell.guard_us) {
    out += formatted("; a guard costs %.2f us a step", cell.guard_us->median);
  }
  if (cell.growing > 0) {
    out += formatted("; %lld grow into the next bucket and go on by its tuples",
                     static_cast<long long>(cell.growing));
  }
  out += b.options.synthetic ? "; synthetic acceptance\n" : "\n";
  for (const PlannerRow& row : cell.rows) {
    out += line_of(row);
  }
  return out;
}

std::string prompts_text(const PlannerBench& b) {
  std::string out;
  for (const PlannerBench::BucketPrompts& bucket : b.prompts) {
    out += "prompts at " + name_of(bucket.range) + ":";
    for (const PromptPlay& p : bucket.prompts) {
      out += (&p == &bucket.prompts.front() ? " " : ", ") + p.prompt + " (" +
             std::to_string(p.tokens) + " tokens" +
             (p.form == PromptForm::kWhole ? std::string() : std::string(", ") + name_of(p.form)) +
             ")";
    }
    out += "\n";
  }
  return out;
}

std::string gaps_text(const PlannerBench& b) {
  std::string out;
  for (const UnplayedCell& u : b.unplayed) {
    out += "not played: " + name_of(u.range) +
           (u.precision ? std::string(", ") + name_of(*u.precision) : "") + ": " + u.reason + "\n";
  }
  return out;
}

std::string settings_text(const std::vector<SettingRow>& settings) {
  std::string out = settings.empty() ? ""
                                     : "the guard's constants, one at a time: mean gain over base, "
                                       "prompts that were moved\n"
                                       "  guard               best+R            best+P\n";
  for (const SettingRow& s : settings) {
    out += formatted("  %-16s %+6.1f %% %6lld   %+6.1f %% %6lld\n", s.name.c_str(),
                     100.0 * s.best_r, static_cast<long long>(s.moved_r), 100.0 * s.best_p,
                     static_cast<long long>(s.moved_p));
  }
  return out;
}

std::string verdicts_text(const PlannerBench& b) {
  std::string out = "verdicts (mean over prompts, a prompt's classes together [95 % interval]):\n";
  for (const Verdict& v : b.verdicts()) {
    out += formatted("  %-10s %s", v.holds ? *v.holds ? "yes" : "no" : "unknown", v.claim.c_str());
    if (v.holds && v.gain.low) {
      out += formatted(": %+.1f %% [%+.1f, %+.1f]", 100.0 * v.gain.mean, 100.0 * *v.gain.low,
                       100.0 * *v.gain.high);
    } else if (v.holds && v.gain.mean != 0.0) {
      out += formatted(": %+.1f %%", 100.0 * v.gain.mean);
    }
    out += (v.detail.empty() ? "" : " (" + v.detail + ")") + std::string("\n");
  }
  return out;
}

std::string means_text(const PlannerBench& b) {
  std::string out = "mean gain over base (exact groups): static " +
                    gain_text(b.mean_gain(Contender::kStatic)) + ", best+R " +
                    gain_text(b.mean_gain(Contender::kBestR)) + ", best+P " +
                    gain_text(b.mean_gain(Contender::kBestP)) + ", oracle " +
                    gain_text(b.mean_gain(Contender::kOracle)) + "; over plain: static " +
                    gain_text(b.mean_gain_over_plain(Contender::kStatic)) + ", best+R " +
                    gain_text(b.mean_gain_over_plain(Contender::kBestR)) + ", best+P " +
                    gain_text(b.mean_gain_over_plain(Contender::kBestP)) +
                    "\nwithin the predicted 90 % interval: first tuples of " +
                    share_text(b.cell_coverage()) + " cells, " + share_text(b.row_coverage()) +
                    " rows with plain decoding and both baselines; the table's steps of " +
                    share_text(b.rows_of_measured_steps()) + " rows were measured\n";
  if (const std::optional<SampleSummary> us = b.guard_us()) {
    out += formatted("a guard costs %.2f us a step", us->median) +
           (has_interval(*us) ? formatted(" [%.2f, %.2f]", us->median_low, us->median_high) : "") +
           (us->count == 1 ? std::string(", of one cell\n")
                           : ", median over " + std::to_string(us->count) + " cells\n");
  }
  out += settings_text(b.settings());
  std::int64_t promised = 0, others = 0;
  for (const TextDivergence& d : b.divergences) {
    (d.is_promised ? promised : others) += 1;
  }
  return out + "texts that left their reference: " + std::to_string(promised) +
         " where it is promised, " + std::to_string(others) + " where it is not\n";
}

}  // namespace

std::string planner_bench_json(const PlannerBench& b) {
  ordered_json rows = ordered_json::array(), cells = ordered_json::array();
  for (const PlannerCell& cell : b.cells) {
    cells.push_back({{"bucket", cell.bucket},
                     {"context", range_json(cell.range)},
                     {"class", name_of(cell.precision)},
                     {"prompts", cell.prompts},
                     {"growing", cell.growing},
                     {"guard_us_a_step", json_of(cell.guard_us)}});
    for (const PlannerRow& row : cell.rows) {
      rows.push_back(json_of(b, cell, row));
    }
  }
  ordered_json unplayed = ordered_json::array();
  for (const UnplayedCell& u : b.unplayed) {
    unplayed.push_back(
        {{"context", range_json(u.range)},
         {"class", u.precision ? ordered_json(name_of(*u.precision)) : ordered_json()},
         {"reason", u.reason}});
  }
  ordered_json out = {
      {"bench", "planner"},
      {"device", b.device},
      {"backend", name_of(b.backend)},
      {"dtype", name_of(b.dtype)},
      {"pair", b.pair},
      {"table",
       {{"hardware", b.hardware},
        {"model", b.planned_model},
        {"pair", b.planned_pair.empty() ? ordered_json() : ordered_json(b.planned_pair)}}},
      {"acceptance", acceptance_json(b)},
      {"temperature", b.options.temperature},
      {"seed", b.options.seed},
      {"max_new_tokens", b.options.max_new_tokens},
      {"rounds", b.options.rounds},
      {"candidates", b.options.candidates},
      {"timed", kTimed},
      {"interval", kInterval},
      {"launch", b.all_recorded ? "graph" : "stream"},
      {"record_s", b.record_s},
      {"prompts", prompts_json(b)},
      {"rows", rows},
      {"cells", cells},
      {"not_played", unplayed},
      {"mean_gain", gains_json(b, &PlannerBench::mean_gain)},
      {"mean_gain_over_plain", gains_json(b, &PlannerBench::mean_gain_over_plain)},
      {"within_90",
       {{"cells", coverage_json(b.cell_coverage())}, {"rows", coverage_json(b.row_coverage())}}},
      {"measured_steps", coverage_json(b.rows_of_measured_steps())},
      {"guard_us_a_step", json_of(b.guard_us())},
      {"verdicts", verdicts_json(b)},
      {"settings", settings_json(b.settings())},
      {"divergences", divergences_json(b)},
      {"remarks", b.remarks}};
  if (const std::string reason = b.failure(); !reason.empty()) {
    out["reason"] = reason;
  }
  return out.dump(1) + "\n";
}

std::string planner_bench_text(const PlannerBench& b) {
  std::string out =
      "plan of " + b.planned_model + " on " + b.hardware + ", played by " + b.pair + " in " +
      name_of(b.dtype) + " on " + b.device + " (" + name_of(b.backend) +
      (b.all_recorded ? ", steps in graphs" : ", steps led by the host") + ")\n" +
      formatted(
          "%s, seed %llu, %lld new tokens, rounds: %lld; tokens/s: medians over "
          "prompts [95 %% interval]; yield/s: all that steps yielded over all time, what a table "
          "predicts for as many requests\ntimed: %s\n",
          b.options.temperature > 0.0 ? formatted("temperature %g", b.options.temperature).c_str()
                                      : "greedy",
          static_cast<unsigned long long>(b.options.seed),
          static_cast<long long>(b.options.max_new_tokens),
          static_cast<long long>(b.options.rounds), kTimed);
  if (b.options.synthetic) {
    out += "synthetic acceptance (" + std::string(name_of(b.options.synthetic->from)) +
           "): how many tokens each step yields is given by " + b.options.synthetic->source +
           "; steps are real, prompts are random tokens, texts mean nothing\n";
  }
  out += prompts_text(b);
  out +=
      "\n  who      tuple                        tokens/s [  95 % interval] a step /plain   /base  "
      "yield/s predicted [ 90 % interval]       same text\n";
  for (const PlannerCell& cell : b.cells) {
    out += cell_text(b, cell);
  }
  out += "\n" + means_text(b) + verdicts_text(b) + gaps_text(b);
  for (const std::string& remark : b.remarks) {
    out += remark + "\n";
  }
  const std::string reason = b.failure();
  return reason.empty() ? out : out + reason + "\n";
}

}  // namespace versieve::engine
