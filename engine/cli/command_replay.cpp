// versieve replay: recorded requests through a planner table, with and without its runtime guard.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>

#include "db/evidence.h"
#include "engine/analyse/plan/table_file.h"
#include "engine/analyse/replay/report.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/io/atomic_file.h"
#include "engine/measure/sweep/sweep.h"
#include "model/plan/concurrency.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string table, database, record, regime, split = "test";
  std::int64_t tokens = 0, concurrency = 1;
  std::optional<std::string> guard;
  bool sweeps_guard = false;
};

Answer recorded(const Options& options, const std::string& sweep) {
  if (sweep.empty()) {
    return {.json = {{"record", nullptr}},
            .text = "nothing is missing: " + options.record + " was not written"};
  }
  engine::write_file_atomically(options.record, sweep);
  return {.json = {{"record", options.record}},
          .text = options.record + " records what is missing: versieve profile --db " +
                  options.database + " --sweep " + name_to_read(options.record)};
}

[[noreturn]] void refuse(const Options& options, const engine::Replay& replay) {
  const std::string reason =
      replay.gaps.empty() ? "the table has no cells" : replay.gaps.front().reason;
  throw Error(ExitCode::kAnswerNo, options.database + " has nothing to play " + options.table +
                                       " with (" + reason +
                                       "): --record FILE writes the sweep that records it");
}

Answer run_replay(const Options& options) {
  if (!options.record.empty() && (options.tokens != 0 || options.guard || options.sweeps_guard)) {
    throw Error(ExitCode::kUsage,
                "--record plays nothing: --tokens, --guard-constants and --sweep-guard say how "
                "walks are played");
  }
  engine::require_other_file(options.table, options.record);
  engine::require_writable(options.record);
  PlanTable table = table_of(engine::read_plan_table(options.table), options.concurrency);
  if (options.guard) {
    table.guard = with_constants(table.guard, *options.guard);
  }
  if (const std::string reason = engine::unplayable_because(table); !reason.empty()) {
    throw Error(ExitCode::kAnswerNo, options.table + ": " + reason);
  }
  const db::Store store = db::Store::open(options.database, db::OpenMode::kReadOnly);
  const engine::Walks walks(db::acceptance_points(store), acceptance_pair(table), options.split,
                            options.regime);
  if (!options.record.empty()) {
    const std::vector<std::string> regimes =
        options.regime.empty() ? engine::text_regimes() : std::vector<std::string>{options.regime};
    return recorded(options, engine::sweep_of_missing_walks(table, walks, options.split, regimes));
  }
  const engine::ReplayOptions wanted{.guard = table.guard, .most_tokens = options.tokens};
  const engine::Replay replay = engine::replay(table, walks, wanted);
  if (replay.rows.empty()) {
    refuse(options, replay);
  }
  Answer answer{.json = engine::replay_json(table, replay),
                .text = engine::replay_text(table, replay)};
  if (options.sweeps_guard) {
    const std::vector<engine::GuardSetting> settings = engine::sweep_guard(table, walks, wanted);
    answer.json["settings"] = engine::settings_json(settings);
    answer.text += engine::settings_text(settings);
  }
  return answer;
}

}  // namespace

Run declare_replay(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--table", options->table, "a table written by `versieve plan`")->required();
  app.add_option("--db", options->database, "database with recorded walks along texts")->required();
  app.add_option("--split", options->split, "texts to play")
      ->check(CLI::IsMember({"test", "calibration"}));
  app.add_option("--regime", options->regime, "only texts of this regime");
  app.add_option("--tokens", options->tokens, "of each request at most; 0: its whole text")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{INT64_MAX}));
  app.add_option("--concurrency", options->concurrency,
                 "requests at a time, one of those that the table was planned for; 1 if left out");
  app.add_option("--guard-constants", options->guard,
                 "other constants of the guard than the table's, as alpha=0.2,warmup=8 "
                 "(drop_ratio, hysteresis, max_transitions)");
  app.add_flag("--sweep-guard", options->sweeps_guard,
               "also change the guard's constants, one at a time");
  add_output(app, "--record", options->record,
             "write the sweep that records the walks which are missing, and play nothing");
  return [options] { return run_replay(*options); };
}

}  // namespace versieve::cli
