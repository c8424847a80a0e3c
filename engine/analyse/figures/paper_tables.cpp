// The paper's tables, as its text gives them, beside what points tell.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "engine/analyse/figures/figure.h"
#include "engine/io/formatted.h"
#include "model/words/evaluation.h"

namespace versieve::engine {
namespace {

using Json = nlohmann::ordered_json;

FigureTable paper_table_1() {
  return {.caption = "the paper: accuracy in %, plus or minus its standard error (1B NSA target)",
          .columns = {{"benchmark", 0},
                      {"SSV", 2},
                      {"SSV + reuse", 2},
                      {"SSV, approximate", 2},
                      {"SSV + reuse, approximate", 2},
                      {"+-", 2}},
          .rows = {{"PIQA", 73.78, 73.99, 73.88, 73.88, 1.02},
                   {"HellaSwag", 58.37, 58.55, 58.53, 58.47, 0.49},
                   {"ARC-Easy", 69.49, 69.57, 69.82, 69.82, 0.94},
                   {"ARC-Challenge", 36.95, 37.12, 37.37, 37.29, 1.41}}};
}

FigureTable paper_table_2() {
  return {
      .caption = "the paper: tokens/s",
      .columns = {{"prompt", 0}, {"BFS-large-deep", 1}, {"DFS-small-deep", 1}, {"DFS-med-base", 1}},
      .rows = {{"chat-gen.", 229.7, 229.8, 233.4},
               {"chat-plan.", 232.8, 222.9, 225.0},
               {"plain", 202.3, 225.9, 210.2},
               {"code", 242.2, 266.7, 259.2}}};
}

struct PaperCell {
  const char* bucket;
  const char* precision;
  double base, static_best, best_r;
  const char* moved;
};
constexpr std::array<PaperCell, 16> kPaperCells = {
    {{"0-4K", "strict", 196.3, 164.2, 192.4, "yes"},
     {"0-4K", "reuse", 196.3, 232.7, 230.7, "no"},
     {"0-4K", "approx", 196.3, 207.6, 206.8, "no"},
     {"0-4K", "both", 196.3, 206.1, 247.9, "yes"},
     {"4-8K", "strict", 169.0, 197.0, 200.5, "no"},
     {"4-8K", "reuse", 169.0, 216.0, 217.4, "no"},
     {"4-8K", "approx", 169.0, 182.7, 181.8, "no"},
     {"4-8K", "both", 169.0, 192.4, 192.4, "no"},
     {"8-12K", "strict", 168.6, 171.5, 172.3, "no"},
     {"8-12K", "reuse", 168.6, 189.3, 189.4, "no"},
     {"8-12K", "approx", 168.6, 176.6, 176.5, "no"},
     {"8-12K", "both", 168.6, 192.0, 192.5, "no"},
     {"12-16K", "strict", 137.4, 156.2, 154.4, "no"},
     {"12-16K", "reuse", 137.4, 165.5, 164.7, "no"},
     {"12-16K", "approx", 137.4, 137.2, 168.0, "yes"},
     {"12-16K", "both", 137.4, 182.6, 183.0, "no"}}};

double gain_percent(double throughput, double base) {
  return 100.0 * (throughput / base - 1.0);
}

FigureTable paper_table_3() {
  FigureTable table{.caption = "the paper: tokens/s, 128 tokens of held-out prompts (H100 PCIe)",
                    .columns = {{"bucket, class", 0},
                                {"base", 1},
                                {"static-best", 1},
                                {"best+R", 1},
                                {"best+R over base %", 1},
                                {"refined", 0}},
                    .rows = {}};
  for (const PaperCell& c : kPaperCells) {
    table.rows.push_back({std::string(c.bucket) + " " + c.precision, c.base, c.static_best,
                          c.best_r, gain_percent(c.best_r, c.base), c.moved});
  }
  return table;
}

FigureTable paper_table_4() {
  return {.caption =
              "the paper: tokens/s; its text at hand lacks the settings' symbols but for "
              "what its prose says of them",
          .columns = {{"setting", 0}, {"tokens/s", 1}, {"refinements", 0}},
          .rows = {{"default", 209.7, 1},
                   {"second row", 207.3, 2},
                   {"third row", 209.0, 1},
                   {"fourth row", 209.6, 1},
                   {"fifth row", 207.8, 1},
                   {"sixth row", 209.5, 1},
                   {"seventh row", 209.0, 1},
                   {"hysteresis too aggressive", 197.9, 6},
                   {"hysteresis too conservative", 199.1, 0}}};
}

// Exact groups of either order yield what the tree's queries yield alone.
std::string yielding_text(Strategy s) {
  if (approximate_group(s) == 1) {
    s.group_size = 1;
    s.group_mode = GroupMode::kExact;
    s.order = Traversal::kBfs;
  }
  return s.text();
}

struct Mean {
  double sum = 0.0, count = 0.0;
};

// Tokens a step by context, tuple and regime: of the split that plans are made of.
using Yields = std::map<std::pair<std::int64_t, std::string>, std::map<std::string, Mean>>;

Yields yields_of(const FiguresInput& input) {
  Yields yields;
  for (const PointMeasurement& m : input.acceptance) {
    if (m.acceptance && !m.acceptance->only_loops() && m.key.split != "test" &&
        Strategy::parse(m.key.strategy).draft.speculates()) {
      Mean& mean = yields[{m.key.context_len, m.key.strategy}][m.key.regime];
      mean.sum += m.acceptance->accepted_per_step;
      mean.count += 1.0;
    }
  }
  return yields;
}

struct PromptRow {
  std::string tuple;
  std::map<std::string, double> of_regime;
};

// Last rows: each regime's first tuple.
FigureTable prompt_table(const std::string& caption, const std::vector<PromptRow>& rows,
                         int digits) {
  std::set<std::string> regimes;
  for (const PromptRow& row : rows) {
    for (const auto& [regime, value] : row.of_regime) {
      regimes.insert(regime);
    }
  }
  FigureTable table{.caption = caption, .columns = {{"tuple", 0}}, .rows = {}};
  for (const std::string& regime : regimes) {
    table.columns.push_back({regime, digits});
  }
  std::map<std::string, const PromptRow*> first;
  for (const PromptRow& row : rows) {
    std::vector<Json> line = {row.tuple};
    for (const std::string& regime : regimes) {
      const auto found = row.of_regime.find(regime);
      line.push_back(found == row.of_regime.end() ? Json() : Json(found->second));
      if (found != row.of_regime.end() &&
          (first[regime] == nullptr || found->second > first[regime]->of_regime.at(regime))) {
        first[regime] = &row;
      }
    }
    table.rows.push_back(std::move(line));
  }
  std::vector<Json> line = {"first"};
  for (const std::string& regime : regimes) {
    line.push_back(first[regime] == nullptr ? Json() : Json(first[regime]->tuple));
  }
  table.rows.push_back(std::move(line));
  return table;
}

std::vector<FigureTable> timed_prompts(const FiguresInput& input, const Yields& yields) {
  std::map<std::int64_t, std::vector<PromptRow>> rows;
  for (const TimedPoint& step : input.pair_steps) {
    const auto found = yields.find({step.context_len, yielding_text(step.strategy)});
    if (!step.strategy.draft.speculates() || found == yields.end()) {
      continue;
    }
    PromptRow row{.tuple = step.strategy.text(), .of_regime = {}};
    for (const auto& [regime, mean] : found->second) {
      row.of_regime[regime] = mean.sum / mean.count / step.median_us * 1e6;
    }
    rows[step.context_len].push_back(std::move(row));
  }
  std::vector<FigureTable> tables;
  for (const auto& [context, of_context] : rows) {
    tables.push_back(prompt_table(input.pair.name +
                                      ", tokens/s: measured tokens a step by measured steps on " +
                                      input.device + ", context " + std::to_string(context),
                                  of_context, 0));
  }
  return tables;
}

std::vector<FigureTable> yielded_prompts(const FiguresInput& input, const Yields& yields) {
  std::map<std::int64_t, std::vector<PromptRow>> rows;
  for (const auto& [key, regimes] : yields) {
    PromptRow row{.tuple = key.second, .of_regime = {}};
    for (const auto& [regime, mean] : regimes) {
      row.of_regime[regime] = mean.sum / mean.count;
    }
    rows[key.first].push_back(std::move(row));
  }
  std::vector<FigureTable> tables;
  for (const auto& [context, of_context] : rows) {
    tables.push_back(prompt_table(
        input.pair.name + ", tokens a step, context " + std::to_string(context), of_context, 2));
  }
  return tables;
}

std::string bucket_name(const ContextBucket& bucket) {
  return std::to_string(bucket.low) + "-" + std::to_string(bucket.high);
}

Json or_null(const std::map<std::string, double>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() ? Json() : Json(found->second);
}

FigureTable live_table_3(const LivePlan& live) {
  FigureTable table{
      .caption = formatted("%s on %s, measured live: tokens/s, medians over prompts, %lld new "
                           "tokens",
                           live.pair.c_str(), live.device.c_str(),
                           static_cast<long long>(live.max_new_tokens)),
      .columns = {{"bucket, class", 0},
                  {"plain", 0},
                  {"base", 0},
                  {"static-best", 0},
                  {"best+R", 0},
                  {"best+R over base %", 1},
                  {"moves", 0},
                  {"prompts", 0}},
      .rows = {}};
  for (const LivePlan::Cell& cell : live.cells) {
    const Json base = or_null(cell.tokens_per_s, "base");
    const Json best = or_null(cell.tokens_per_s, "best+R");
    const bool both = base.is_number() && best.is_number();
    table.rows.push_back(
        {bucket_name(cell.range) + " " + cell.precision, or_null(cell.tokens_per_s, "plain"), base,
         or_null(cell.tokens_per_s, "static"), best,
         both ? Json(gain_percent(best.get<double>(), base.get<double>())) : Json(), cell.moved,
         cell.prompts});
  }
  return table;
}

FigureTable live_table_4(const LivePlan& live) {
  FigureTable table{.caption = live.pair + " on " + live.device +
                               ", measured live: best+R over base, mean over the cells of table 3",
                    .columns = {{"setting", 0}, {"over base %", 1}, {"moves", 0}},
                    .rows = {}};
  for (const LivePlan::Setting& s : live.settings) {
    table.rows.push_back({s.name, 100.0 * s.gain, s.moved});
  }
  return table;
}

}  // namespace

Figure table_1(const FiguresInput& input) {
  Figure figure{.name = "table 1",
                .asks = "accuracy under reuse and approximate groups",
                .paper =
                    "negligible losses on four benchmarks, which need a pretrained NSA target "
                    "of its size",
                .papers = {paper_table_1()},
                .tables = {},
                .missing = {}};
  FigureTable table{.caption = input.pair.name +
                               ": right answers in % with 95 % intervals, and "
                               "KL(exact || tuple) in nats a token",
                    .columns = {{"set, tuple", 0},
                                {"class", 0},
                                {"questions", 0},
                                {"exact", 2},
                                {"tuple", 2},
                                {"low", 2},
                                {"high", 2},
                                {"KL", 4}},
                    .rows = {}};
  for (const QualityPoint& q : input.quality) {
    const std::string name = q.set + (q.distance.empty() ? "" : " " + q.distance) +
                             (q.split.empty() ? "" : " (" + q.split + ")") + " " + q.strategy;
    std::vector<Json> row = {name, name_of(Strategy::parse(q.strategy).precision())};
    if (q.answers) {
      const QualityAnswers& a = *q.answers;
      for (const Json& cell : {Json(a.questions), Json(100.0 * (a.accuracy.value - a.change.value)),
                               Json(100.0 * a.accuracy.value), Json(100.0 * a.accuracy.low),
                               Json(100.0 * a.accuracy.high)}) {
        row.push_back(cell);
      }
    } else {
      row.insert(row.end(), 5, Json());
    }
    row.push_back(q.kl_nats.value);
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) {
    figure.missing.push_back(
        "what lossy tuples cost the pair was not stored: versieve quality --model FOLDER "
        "--strategy S --tasks FILE --db F does");
  } else {
    figure.tables.push_back(std::move(table));
  }
  return figure;
}

Figure table_2(const FiguresInput& input) {
  Figure figure{.name = "table 2",
                .asks = "which tuple is first depends on the prompt",
                .paper = "other prompts select other tuples (Section 6.3)",
                .papers = {paper_table_2()},
                .tables = {},
                .missing = {}};
  const Yields yields = yields_of(input);
  std::vector<FigureTable> tables = timed_prompts(input, yields);
  if (tables.empty()) {
    tables = yielded_prompts(input, yields);
    figure.missing.push_back(
        "no step of the pair's own weights was timed, so tokens a step stand in for tokens a "
        "second: versieve profile --model FOLDER --sweep pair does on a GPU");
  }
  std::move(tables.begin(), tables.end(), std::back_inserter(figure.tables));
  return figure;
}

Figure table_3(const FiguresInput& input) {
  Figure figure{.name = "table 3",
                .asks = "fixed baseline, first choice and runtime refinement on held-out texts",
                .paper = "static-best 10.6 % and best+R 14.4 % over base in the mean",
                .papers = {paper_table_3()},
                .tables = {},
                .missing = {}};
  if (input.live) {
    figure.tables.push_back(live_table_3(*input.live));
  }
  if (!input.played) {
    if (!input.live) {
      figure.missing.push_back(
          "points alone hold no plan: versieve plan --db F --out T, then --plan T plays recorded "
          "texts through it; versieve bench planner --table T --out L measures it, then --live L");
    }
    return figure;
  }
  const Replay& replay = input.played->replay;
  FigureTable table{
      .caption = formatted("%s: recorded tokens a step of held-out texts by the table's step "
                           "times, tokens/s; static-best %+.1f %%, best+R %+.1f %% over base in "
                           "the mean",
                           input.pair.name.c_str(), 100.0 * replay.static_best_gain,
                           100.0 * replay.best_r_gain),
      .columns = {{"bucket, class", 0},
                  {"base", 0},
                  {"static-best", 0},
                  {"best+R", 0},
                  {"best+R over base %", 1},
                  {"texts refined", 0}},
      .rows = {}};
  for (const ReplayRow& row : replay.rows) {
    table.rows.push_back(
        {bucket_name(input.played->buckets[static_cast<std::size_t>(row.bucket)]) + " " +
             name_of(row.precision) + (row.rank > 1 ? ", rank " + std::to_string(row.rank) : ""),
         row.base, row.static_best, row.best_r.throughput,
         gain_percent(row.best_r.throughput, row.base),
         std::to_string(row.best_r.moved) + " of " + std::to_string(row.requests)});
  }
  figure.tables.push_back(std::move(table));
  if (!replay.gaps.empty()) {
    figure.missing.push_back(
        std::to_string(replay.gaps.size()) + " cells cannot be played, the first because " +
        replay.gaps.front().reason + ": versieve replay --record writes the sweep");
  }
  return figure;
}

Figure table_4(const FiguresInput& input) {
  Figure figure{.name = "table 4",
                .asks = "one constant of the runtime guard changed at a time",
                .paper = "gains hold within a small range but for the hysteresis window",
                .papers = {paper_table_4()},
                .tables = {},
                .missing = {}};
  if (input.live && !input.live->settings.empty()) {
    figure.tables.push_back(live_table_4(*input.live));
  }
  if (!input.played) {
    if (figure.tables.empty()) {
      figure.missing.push_back(
          "as of table 3: --plan T plays recorded texts, and --live L shows what bench planner "
          "--sweep-guard measured");
    }
    return figure;
  }
  FigureTable table{
      .caption = input.pair.name + ": mean over the cells of table 3",
      .columns = {{"setting", 0}, {"tokens/s", 0}, {"over base %", 1}, {"refinements", 0}},
      .rows = {}};
  for (const GuardSetting& s : input.played->settings) {
    table.rows.push_back({s.name, s.replay.best_r.throughput, 100.0 * s.replay.best_r_gain,
                          s.replay.best_r.transitions});
  }
  figure.tables.push_back(std::move(table));
  return figure;
}

}  // namespace versieve::engine
