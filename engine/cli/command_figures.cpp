// versieve figures: the paper's figures and tables with a database's numbers beside the paper's.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>
#include <span>

#include "db/evidence.h"
#include "engine/analyse/figures/figure.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/io/atomic_file.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string database, pair, device, csv, plan, live;
  std::vector<int> figures, tables;
  bool traversal = false;
  std::int64_t context_len = 8192;
};

using Maker = engine::Figure (*)(const engine::FiguresInput&);

struct Numbered {
  int number;
  Maker maker;
};
constexpr Numbered kFigures[] = {
    {2, engine::figure_2}, {4, engine::figure_4}, {7, engine::figure_7}};
constexpr Numbered kTables[] = {
    {1, engine::table_1}, {2, engine::table_2}, {3, engine::table_3}, {4, engine::table_4}};

// In the order of the options; without any all of them.
std::vector<Maker> chosen(const Options& options) {
  std::vector<Maker> makers;
  const bool all = !options.traversal && options.figures.empty() && options.tables.empty();
  if (all || options.traversal) {
    makers.push_back(engine::traversal_figure);
  }
  const auto add = [&](std::span<const Numbered> known, const std::vector<int>& asked) {
    for (const Numbered& each : known) {
      if (all || std::count(asked.begin(), asked.end(), each.number) > 0) {
        makers.push_back(each.maker);
      }
    }
  };
  add(kFigures, options.figures);
  add(kTables, options.tables);
  return makers;
}

// The one that is named, by name or hash; else the measured one with most points.
engine::AcceptancePair chosen_pair(const Options& options,
                                   const std::vector<PointMeasurement>& acceptance) {
  const std::vector<engine::AcceptancePair> pairs = engine::acceptance_pairs(acceptance);
  const auto is_asked = [&](const engine::AcceptancePair& pair) {
    return options.pair.empty() || names_pair(options.pair, {pair.name, pair.sha256});
  };
  const auto found = std::find_if(pairs.begin(), pairs.end(), is_asked);
  if (found != pairs.end()) {
    return *found;
  }
  if (options.pair.empty()) {
    return {};  // figures of times need no pair
  }
  throw Error(ExitCode::kAnswerNo, "there is no acceptance of a pair '" + options.pair +
                                       "': the points hold " + engine::listed(pairs));
}

engine::TimedPoint timed_point(const db::PointOverview& p, const std::vector<std::string>& words) {
  const auto word = [&words](std::int32_t at) { return words[static_cast<std::size_t>(at)]; };
  return {.workload = p.workload,
          .model = word(p.model),
          .strategy = Strategy::parse(word(p.strategy)),
          .context_len = p.context_len,
          .num_queries = p.num_queries,
          .overlap = p.overlap,
          .cache_state = word(p.cache_state),
          .launch = word(p.launch),
          .dtype = word(p.dtype),
          .median_us = *p.median_ns / 1e3};
}

constexpr WorkloadKind kTimed[] = {WorkloadKind::kAttention, WorkloadKind::kDecode,
                                   WorkloadKind::kStep};

// The form that a plan chooses among; dense and vanilla steps of the pair stand beside it
// elsewhere.
void add_pair_step(engine::TimedPoint step, engine::FiguresInput& input) {
  if (step.strategy.attention == AttentionMethod::kNsa && step.strategy.form == NsaForm::kFused) {
    input.pair_steps.push_back(std::move(step));
  }
}

// Timed; steps that draw their tokens are other work.
bool is_greedy(const db::PointOverview& p) {
  return p.median_ns && p.temperature == 0.0;
}

// Measured runs of that device: points of geometries, and of the pair.
void read_timed(const db::Store& store, engine::FiguresInput& input) {
  std::vector<PairId> pairs = store.pairs();
  std::erase_if(pairs, [](const PairId& pair) { return pair.sha256.empty(); });
  for (const db::StoredRun& run : store.runs()) {
    if (run.record.device != input.device || is_imported(run.record) || is_simulated(run.record)) {
      continue;
    }
    for (const WorkloadKind workload : kTimed) {
      std::set<std::int64_t> of_pairs;
      for (const PairId& pair : pairs) {
        const db::Overview of_pair = store.overview(
            {.run_id = run.id, .workload = workload, .pair = pair.sha256, .only_ok = true});
        for (const db::PointOverview& p : of_pair.points) {
          of_pairs.insert(p.id);
          if (is_greedy(p) && workload == WorkloadKind::kStep && pair.sha256 == input.pair.sha256) {
            add_pair_step(timed_point(p, of_pair.words), input);
          }
        }
      }
      const db::Overview all =
          store.overview({.run_id = run.id, .workload = workload, .only_ok = true});
      for (const db::PointOverview& p : all.points) {
        if (is_greedy(p) && of_pairs.count(p.id) == 0) {
          input.timed.push_back(timed_point(p, all.words));
        }
      }
    }
  }
}

bool has_timed_points(const db::Store& store) {
  return std::any_of(std::begin(kTimed), std::end(kTimed), [&store](WorkloadKind workload) {
    const db::Overview overview = store.overview({.workload = workload, .only_ok = true});
    return std::any_of(overview.points.begin(), overview.points.end(),
                       [](const db::PointOverview& p) { return p.median_ns.has_value(); });
  });
}

// The device with most timed points in the catalogue; of a database without one, none.
std::string device_of(const Options& options, const db::Store& store) {
  if (!options.device.empty()) {
    return db::fitted_device(store, options.device, "");
  }
  try {
    return has_timed_points(store) ? db::fitted_device(store, "", "") : std::string();
  } catch (const Error& e) {
    if (e.code() != ExitCode::kAnswerNo) {
      throw;
    }
    return {};  // timed on no machine of the catalogue
  }
}

engine::PlayedPlan played_plan(const Options& options,
                               const std::vector<PointMeasurement>& acceptance) {
  const PlanTable table = engine::read_plan_table(options.plan);
  if (const std::string reason = engine::unplayable_because(table); !reason.empty()) {
    throw Error(ExitCode::kAnswerNo, options.plan + ": " + reason);
  }
  const engine::Walks walks(acceptance, acceptance_pair(table), "test", "");
  const engine::ReplayOptions wanted{.guard = table.guard};
  return {.replay = engine::replay(table, walks, wanted),
          .settings = engine::sweep_guard(table, walks, wanted),
          .buckets = table.buckets};
}

Answer run_figures(const Options& options) {
  for (const std::string& in : {options.plan, options.live}) {
    engine::require_other_file(in, options.csv);
  }
  engine::require_writable(options.csv);
  const db::Store store = db::Store::open(options.database, db::OpenMode::kReadOnly);
  const std::vector<PointMeasurement> acceptance = db::acceptance_points(store);
  engine::FiguresInput input{.pair = chosen_pair(options, acceptance),
                             .acceptance = {},
                             .timed = {},
                             .pair_steps = {},
                             .device = device_of(options, store),
                             .quality = {},
                             .played = {},
                             .live = {},
                             .context_len = options.context_len};
  for (const PointMeasurement& m : acceptance) {
    if (input.pair.points > 0 && engine::is_of(m, input.pair)) {
      input.acceptance.push_back(m);
    }
  }
  if (!input.device.empty()) {
    read_timed(store, input);
  }
  for (const QualityPoint& q : store.quality()) {
    if (!input.pair.sha256.empty() && q.pair.sha256 == input.pair.sha256) {
      input.quality.push_back(q);
    }
  }
  if (!options.plan.empty()) {
    input.played = played_plan(options, acceptance);
  }
  if (!options.live.empty()) {
    input.live = engine::read_live_plan(options.live);
  }
  std::vector<engine::Figure> figures;
  for (const Maker maker : chosen(options)) {
    figures.push_back(maker(input));
  }
  if (!options.csv.empty()) {
    engine::write_file_atomically(options.csv, engine::figures_csv(figures));
  }
  Answer answer{.json = {{"pair", input.pair.name},
                         {"sha256", input.pair.sha256},
                         {"device", input.device},
                         {"figures", engine::figures_json(figures)}},
                .text = engine::figures_text(figures)};
  const bool told = std::any_of(figures.begin(), figures.end(),
                                [](const engine::Figure& f) { return !f.tables.empty(); });
  answer.code = told ? ExitCode::kDone : ExitCode::kAnswerNo;
  return answer;
}

}  // namespace

Run declare_figures(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--db", options->database, "database of measured points")->required();
  app.add_option("--pair", options->pair,
                 "trained pair, by its name or eight digits of its hash; the measured one with "
                 "most points if left out");
  app.add_option("--device", options->device, "whose times, by a part of its name");
  app.add_option("--figure", options->figures, "2, 4 or 7; may be given several times")
      ->check(CLI::IsMember({2, 4, 7}));
  app.add_option("--table", options->tables, "1, 2, 3 or 4; may be given several times")
      ->check(CLI::IsMember({1, 2, 3, 4}));
  app.add_flag("--traversal", options->traversal, "what either order shares, loads and yields");
  app.add_option("--context", options->context_len,
                 "of figures 2 and 4: the nearest that was measured")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--plan", options->plan,
                 "a table written by `versieve plan`, to be played for tables 3 and 4");
  app.add_option("--live", options->live,
                 "what `versieve bench planner --out` wrote, for tables 3 and 4");
  add_output(app, "--csv", options->csv, "also write the cells to this file, a line each");
  return [options] { return run_figures(*options); };
}

}  // namespace versieve::cli
