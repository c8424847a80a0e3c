// versieve import: stores what another program measured as a run of its own, marked as imported.
#include <CLI/CLI.hpp>
#include <memory>

#include "db/store.h"
#include "engine/analyse/import/import.h"
#include "engine/cli/commands.h"
#include "engine/io/atomic_file.h"

namespace versieve::cli {
namespace {

struct Options {
  engine::ImportRequest request;
  std::string file, database, before;
};

enum class Stored { kNow, kRest, kBefore };

// The run's id; an import that was cut off is taken up again.
std::int64_t opened_run(db::Store& store, const engine::ImportedRun& imported,
                        const std::optional<db::StoredRun>& before) {
  if (before) {
    return before->id;
  }
  const std::int64_t id = store.begin_run(imported.record);
  for (const std::string& remark : imported.remarks) {
    store.add_diagnostic(id, "info", "import", remark);
  }
  return id;
}

Stored store_run(db::Store& store, const engine::ImportedRun& imported) {
  const std::optional<db::StoredRun> before = store.run(imported.record.uuid);
  if (before && before->record.status == RunStatus::kComplete) {
    return Stored::kBefore;
  }
  if (before && before->record.status == RunStatus::kRunning) {
    throw Error(ExitCode::kEnvironment,
                "another process is importing this file into " + store.path() + " right now");
  }
  const std::int64_t id = opened_run(store, imported, before);
  for (const PointMeasurement& point : imported.points) {
    if (!store.has_point(id, point.key)) {
      store.add_point(id, point);
    }
  }
  store.finish_run(id, RunStatus::kComplete);
  return before ? Stored::kRest : Stored::kNow;
}

std::string sentence_of(Stored stored, const std::string& database) {
  switch (stored) {
    case Stored::kNow:
      return " stored in " + database + " as imported";
    case Stored::kRest:
      return " stored in " + database + " as imported, where an import of it had been cut off";
    case Stored::kBefore:
      return " already there: " + database + " holds this import, and nothing was added";
  }
  return {};
}

Answer answer_of(const engine::ImportedRun& imported, Stored stored, const std::string& database) {
  Answer answer;
  answer.json = {{"run", imported.record.uuid},
                 {"kind", imported.record.kind},
                 {"device", imported.record.device},
                 {"points", imported.points.size()},
                 {"already_there", stored == Stored::kBefore},
                 {"rows_taken", imported.rows_taken},
                 {"rows_left_out", nlohmann::json::array()},
                 {"remarks", imported.remarks},
                 {"database", database}};
  answer.text = std::to_string(imported.points.size()) + " points of " +
                std::to_string(imported.rows_taken) + " rows" + sentence_of(stored, database) +
                " (run " + imported.record.uuid + ").\n";
  for (const auto& [reason, rows] : imported.left_out) {
    answer.json["rows_left_out"].push_back({{"reason", reason}, {"rows", rows}});
    answer.text += "rows left out: " + std::to_string(rows) + " (" + reason + ")\n";
  }
  for (const std::string& remark : imported.remarks) {
    answer.text += "note: " + remark + "\n";
  }
  return answer;
}

// The file is read and checked whole before the database is touched.
Answer run_import(Options options) {
  options.request.file = options.file;
  options.request.before = options.before;
  engine::require_room(options.database);
  const engine::ImportedRun imported = engine::read_import(options.request);
  db::Store store = db::Store::open(options.database, db::OpenMode::kCreateOrOpen);
  return answer_of(imported, store_run(store, imported), options.database);
}

}  // namespace

Run declare_import(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  engine::ImportRequest& request = options->request;
  app.add_option(
         "--format", request.format,
         "csv (a line a step), sglang (bench_speculative's or bench_serving's JSON Lines, a "
         "server's log or its responses), vllm (the /metrics page, a server's log, `vllm bench "
         "serve`'s JSON, "
         "metrics.speculative_decoding of responses), trtllm (iteration statistics), "
         "profile (speculation_profile.json) or sequoia (an acceptance vector as printed): "
         "engine/analyse/import/README.md")
      ->required();
  app.add_option("--db", options->database, "database that takes the points; made if not there")
      ->required();
  app.add_option("--model", request.model, "what was measured: stored as the points' model")
      ->required();
  app.add_option("--device", request.device, "where it was measured: stored as given")->required();
  app.add_option("--attention", request.attention,
                 "dense (if left out) or nsa; csv says it in each strategy");
  app.add_option("--regime", request.regime, "what kind of text it was: chat, code ...");
  app.add_option("--context", request.context_len,
                 "tokens before the steps, where the file neither says nor shows them");
  app.add_option("--draft", request.draft,
                 "what was drafted, as d5k1n6 (depth, width, nodes with the root), where the file "
                 "does not say it; ar takes the times of a server without speculation");
  app.add_option("--steps", request.steps, "of a vector of Sequoia: the steps that it rests on");
  app.add_option("--before", options->before,
                 "an earlier scrape of the same /metrics page, to be taken off FILE's counts");
  app.add_option("FILE", options->file, "the record to import")->required();
  return [options] { return run_import(*options); };
}

}  // namespace versieve::cli
