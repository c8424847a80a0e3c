// From what was played to rows: medians over prompts, ratios prompt by prompt, and the table's
// predictions beside them.
#include <algorithm>
#include <map>

#include "engine/measure/bench/planner_bench.h"
#include "model/words/assert.h"

namespace versieve::engine {
namespace {

using profiler::median_of;
using profiler::SampleSummary;
using profiler::summary_of;

// The runs of one cell on all prompts.
class CellMaker {
 public:
  CellMaker(const PlanTable& table, const PlayedBucket& bucket, const PlayedCell& cell,
            const std::vector<PromptPlay>& plays)
      : table_(table), bucket_(bucket), cell_(cell), plays_(plays) {}

  PlannerCell make() const {
    PlannerCell out{.bucket = bucket_.index,
                    .range = bucket_.range,
                    .precision = cell_.precision,
                    .prompts = static_cast<std::int64_t>(plays_.size()),
                    .growing = std::count_if(plays_.begin(), plays_.end(),
                                             [](const PromptPlay& play) { return play.grows; })};
    for (const Contender contender : kContenders) {
      out.rows.push_back(row(contender));
    }
    add_settings(out);
    out.guard_us = guard_us();
    return out;
  }

 private:
  // The median of what `of` says of the two in each round.
  template <class Of>
  static double paired(const std::vector<double>& a, const std::vector<double>& b, Of of) {
    VERSIEVE_ASSERT(a.size() == b.size(), "all runs take part in every round");
    std::vector<double> out;
    for (std::size_t i = 0; i < a.size(); ++i) {
      out.push_back(of(a[i], b[i]));
    }
    return median_of(std::move(out));
  }

  template <class Of>
  SampleSummary over_prompts(Of of) const {
    std::vector<double> values;
    for (const PromptPlay& play : plays_) {
      values.push_back(of(play));
    }
    return summary_of(values);
  }

  // Where the tuple alone stays too.
  std::optional<SampleSummary> guard_us() const {
    std::vector<double> values;
    for (const PromptPlay& play : plays_) {
      if (cell_.never_moving && !play.grows) {
        values.push_back(paired(play.runs[*cell_.never_moving].step_us,
                                play.runs[cell_.first.front()].step_us,
                                [](double guarded, double alone) { return guarded - alone; }));
      }
    }
    return values.empty() ? std::nullopt : std::optional(summary_of(values));
  }

  double gain_of(std::size_t run) const {
    return over_prompts([&](const PromptPlay& play) {
             return paired(play.runs[run].tokens_per_s, play.runs[cell_.base].tokens_per_s,
                           [](double a, double b) { return a / b; });
           }).median -
           1.0;
  }

  std::int64_t moved(std::size_t run) const {
    return std::count_if(plays_.begin(), plays_.end(),
                         [run](const PromptPlay& play) { return play.runs[run].moved; });
  }

  SettingRow setting(const std::string& name, std::size_t r, std::size_t p) const {
    return {name, gain_of(r), gain_of(p), moved(r), moved(p)};
  }

  void add_settings(PlannerCell& out) const {
    const std::vector<VariedGuard> names = one_factor_settings(table_.guard);
    for (std::size_t i = 0; i < cell_.settings_r.size(); ++i) {
      if (i == 0) {
        out.settings.push_back(setting("as given", cell_.best_r, cell_.best_p));
      }
      out.settings.push_back(setting(names.at(i).name, cell_.settings_r[i], cell_.settings_p[i]));
    }
  }

  // Index of the contender's run on that prompt.
  std::size_t run_of(Contender contender, const PromptPlay& play) const {
    switch (contender) {
      case Contender::kPlain:
        return cell_.plain;
      case Contender::kBase:
        return cell_.base;
      case Contender::kBaseSingle:
        return cell_.base_single;
      case Contender::kStatic:
        return cell_.first.front();
      case Contender::kBestR:
        return cell_.best_r;
      case Contender::kBestP:
        return cell_.best_p;
      case Contender::kOracle:
        return fastest(play);
    }
    VERSIEVE_ASSERT(false, "a contender has a run");
  }

  std::size_t fastest(const PromptPlay& play) const {
    return *std::max_element(
        cell_.first.begin(), cell_.first.end(), [&play](std::size_t a, std::size_t b) {
          return median_of(play.runs[a].tokens_per_s) < median_of(play.runs[b].tokens_per_s);
        });
  }

  // [prompt]
  std::vector<double> ratios_to(std::size_t other, Contender contender) const {
    std::vector<double> out;
    for (const PromptPlay& play : plays_) {
      out.push_back(paired(play.runs[run_of(contender, play)].tokens_per_s,
                           play.runs[other].tokens_per_s,
                           [](double a, double b) { return a / b; }));
    }
    return out;
  }

  void add_steps(Contender contender, PlannerRow& row) const {
    double yielded = 0.0, steps = 0.0, tokens = 0.0, seconds = 0.0;
    for (const PromptPlay& play : plays_) {
      const RunPlay& run = play.runs[run_of(contender, play)];
      yielded += run.yielded;
      steps += static_cast<double>(run.steps);
      tokens += static_cast<double>(run.tokens);
      seconds += static_cast<double>(run.tokens) / median_of(run.tokens_per_s);
      row.moved += run.moved ? 1 : 0;
      row.compared += run.reference ? 1 : 0;
      row.same_text += run.reference && !run.divergence ? 1 : 0;
      row.texts.push_back({.prompt = play.prompt,
                           .tokens = run.tokens,
                           .steps = run.steps,
                           .yielded = run.yielded,
                           .tokens_per_s = median_of(run.tokens_per_s),
                           .looping = run.looping});
    }
    row.tokens_a_step = yielded / steps;
    row.pooled_tokens_per_s = tokens / seconds;
    row.yielded_per_s = yielded / seconds;
  }

  // The one that ran on most prompts, of equals the first.
  Strategy tuple_of(Contender contender) const {
    std::map<std::size_t, std::int64_t> counts;
    for (const PromptPlay& play : plays_) {
      ++counts[run_of(contender, play)];
    }
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    return bucket_.runs[most->first].first();
  }

  PlannerRow row(Contender contender) const {
    const Strategy strategy = tuple_of(contender);
    PlannerRow out{.contender = contender,
                   .strategy = strategy.text(),
                   .tokens_per_s = over_prompts([&](const PromptPlay& play) {
                     return median_of(play.runs[run_of(contender, play)].tokens_per_s);
                   }),
                   .each_over_plain = ratios_to(cell_.plain, contender),
                   .each_over_base = ratios_to(cell_.base, contender),
                   .each_over_static = ratios_to(cell_.first.front(), contender),
                   .promises_text = claims_autoregressive_text(strategy.precision())};
    out.over_plain = summary_of(out.each_over_plain);
    out.over_base = summary_of(out.each_over_base);
    add_steps(contender, out);
    const bool is_one_tuple = contender != Contender::kBestR && contender != Contender::kBestP &&
                              contender != Contender::kOracle;
    const Evaluation* const told =
        is_one_tuple ? prediction_of(table_, bucket_.index, strategy) : nullptr;
    if (told != nullptr) {
      const Interval interval =
          interval_for(*told, table_.requests, static_cast<std::int64_t>(plays_.size()));
      out.predicted = Predicted{told->throughput, interval.low, interval.high,
                                told->expected_accepted, told->source};
      out.is_within = out.yielded_per_s >= interval.low && out.yielded_per_s <= interval.high;
    }
    return out;
  }

  const PlanTable& table_;
  const PlayedBucket& bucket_;
  const PlayedCell& cell_;
  const std::vector<PromptPlay>& plays_;
};

std::optional<double> mean_over(const std::vector<PlannerCell>& cells, Contender contender,
                                SampleSummary PlannerRow::*ratio) {
  if (cells.empty()) {
    return {};
  }
  double sum = 0.0;
  for (const PlannerCell& cell : cells) {
    sum += (cell.row(contender).*ratio).median - 1.0;
  }
  return sum / static_cast<double>(cells.size());
}

// Those rows of the cells that have a prediction, what the cells of a bucket share once.
template <class Counts>
PlannerBench::Coverage coverage(const std::vector<PlannerCell>& cells, bool with_shared,
                                Counts counts) {
  PlannerBench::Coverage out;
  const auto add = [&](const PlannerRow& row) {
    out.all += row.predicted ? 1 : 0;
    out.within += row.predicted && counts(row) ? 1 : 0;
  };
  std::int64_t bucket = -1;
  for (const PlannerCell& cell : cells) {
    add(cell.row(Contender::kStatic));
    if (with_shared && cell.bucket != bucket) {  // cells of a bucket stand together
      bucket = cell.bucket;
      for (const Contender shared : {Contender::kPlain, Contender::kBase, Contender::kBaseSingle}) {
        add(cell.row(shared));
      }
    }
  }
  return out;
}

bool is_within(const PlannerRow& row) {
  return *row.is_within;
}

}  // namespace

std::int64_t PlannerRow::looping() const {
  return std::count_if(texts.begin(), texts.end(),
                       [](const PlayedText& text) { return text.looping; });
}

const PlannerRow& PlannerCell::row(Contender contender) const {
  return rows.at(static_cast<std::size_t>(contender));
}

std::vector<PlannerCell> cells_of(const PlanTable& table, const PlayedBucket& bucket,
                                  const std::vector<PromptPlay>& plays) {
  VERSIEVE_ASSERT(!plays.empty(), "a played bucket has prompts");
  std::vector<PlannerCell> out;
  for (const PlayedCell& cell : bucket.cells) {
    if (cell.unplayed_because.empty()) {
      out.push_back(CellMaker(table, bucket, cell, plays).make());
    }
  }
  return out;
}

bool promises_text(const PlayedRun& run) {
  const std::vector<Strategy> tuples = run.tuples();
  return std::all_of(tuples.begin(), tuples.end(),
                     [](const Strategy& s) { return claims_autoregressive_text(s.precision()); });
}

std::vector<TextDivergence> divergences_of(const PlayedBucket& bucket, const PromptPlay& play) {
  std::vector<TextDivergence> out;
  for (std::size_t i = 0; i < play.runs.size(); ++i) {
    const RunPlay& run = play.runs[i];
    if (!run.divergence) {
      continue;
    }
    const PlayedRun& played = bucket.runs[i];
    out.push_back({.range = bucket.range,
                   .prompt = play.prompt,
                   .strategy = played.first().text() +
                               (played.is_guarded
                                    ? std::string(" under the guard ") + name_of(played.plan.rule)
                                    : ""),
                   .reference = run.reference->text(),
                   .at = *run.divergence,
                   .is_promised = promises_text(played)});
  }
  return out;
}

std::optional<double> PlannerBench::mean_gain(Contender contender) const {
  return mean_over(cells, contender, &PlannerRow::over_base);
}

std::optional<double> PlannerBench::mean_gain_over_plain(Contender contender) const {
  return mean_over(cells, contender, &PlannerRow::over_plain);
}

PlannerBench::Coverage PlannerBench::cell_coverage() const {
  return coverage(cells, /*with_shared=*/false, is_within);
}

PlannerBench::Coverage PlannerBench::row_coverage() const {
  return coverage(cells, /*with_shared=*/true, is_within);
}

PlannerBench::Coverage PlannerBench::rows_of_measured_steps() const {
  return coverage(cells, /*with_shared=*/true, [](const PlannerRow& row) {
    return row.predicted->source == Provenance::kMeasured;
  });
}

std::optional<SampleSummary> PlannerBench::guard_us() const {
  std::vector<double> medians;
  for (const PlannerCell& cell : cells) {
    if (cell.guard_us) {
      medians.push_back(cell.guard_us->median);
    }
  }
  return medians.empty() ? std::nullopt : std::optional<SampleSummary>(summary_of(medians));
}

std::vector<SettingRow> PlannerBench::settings() const {
  std::vector<SettingRow> out;
  for (const PlannerCell& cell : cells) {
    out.resize(cell.settings.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double share = 1.0 / static_cast<double>(cells.size());
      out[i].name = cell.settings[i].name;
      out[i].best_r += share * cell.settings[i].best_r;
      out[i].best_p += share * cell.settings[i].best_p;
      out[i].moved_r += cell.settings[i].moved_r;
      out[i].moved_p += cell.settings[i].moved_p;
    }
  }
  return out;
}

std::string PlannerBench::failure() const {
  for (const TextDivergence& d : divergences) {
    if (d.is_promised) {
      return "'" + d.strategy + "' left the text of '" + d.reference + "' on the prompt " +
             d.prompt + " at " + name_of(d.range) + ", at generated token " +
             std::to_string(d.at.index) + ", where the two best logits are " +
             std::to_string(d.at.logit_gap) + " apart";
    }
  }
  return {};
}

}  // namespace versieve::engine
