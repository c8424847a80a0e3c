// versieve quality: what a lossy choice costs on held-out text: strategies beside the exact run, or
// ways of reading fewer tokens beside each other.
#include <CLI/CLI.hpp>
#include <memory>

#include "db/store.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/cli/progress_text.h"
#include "engine/cli/run_record.h"
#include "engine/io/atomic_file.h"
#include "engine/io/pair_identity.h"
#include "engine/run/quality/lossy_quality.h"
#include "engine/run/specattn/quality.h"

namespace versieve::cli {
namespace {

struct Options {
  engine::QualityRequest selections;
  engine::LossyQualityRequest strategies;  // the same model, texts, scored and device
  std::string out, database, split = "test";
};

Answer answer_with(nlohmann::ordered_json found, std::string text,
                   const std::vector<std::string>& remarks, const std::string& out) {
  write_notes(remarks);
  if (!out.empty()) {
    engine::write_file_atomically(out, found.dump(1) + "\n");
  }
  return {.json = std::move(found), .text = std::move(text)};
}

RunRecord record_of(const engine::LossyQualityReport& report, const Options& options) {
  nlohmann::ordered_json configuration = {{"sweep", "quality"},
                                          {"scored", report.scored},
                                          {"decoded", report.decoded},
                                          {"questions", report.questions},
                                          {"split", options.split}};
  if (report.cut > 0) {
    configuration["cut"] = report.cut;
  }
  for (const std::filesystem::path& path : options.strategies.tasks) {
    configuration["tasks"].push_back(path.filename().string());
  }
  for (const std::filesystem::path& path : options.strategies.texts) {
    configuration["texts"].push_back(path.filename().string());
  }
  return uncounted_run("quality", backend_of(report.backend), report.device,
                       "What strategies cost takes no counters.", configuration.dump());
}

// One run, stored when all of it is measured.
void store_quality(const engine::LossyQualityReport& report, const Options& options) {
  db::Store store = db::Store::open(options.database, db::OpenMode::kCreateOrOpen);
  const std::int64_t run = store.begin_run(record_of(report, options));
  store.add_quality(run,
                    engine::quality_points(report, engine::pair_identity(options.strategies.model),
                                           options.split));
  store.finish_run(run, RunStatus::kComplete);
}

Answer run_quality(Options& options) {
  engine::require_two_files(options.database, options.out);
  engine::require_other_files(options.strategies.texts, options.out);
  engine::require_other_files(options.selections.texts, options.out);
  engine::require_writable(options.out);
  const engine::QualityRequest& given = options.selections;
  engine::LossyQualityRequest& request = options.strategies;
  if (request.strategies.empty() && request.tasks.empty()) {
    if (!options.database.empty()) {
      throw Error(ExitCode::kUsage,
                  "--db stores what strategies cost, and there is none: --strategy S or --tasks F");
    }
    const engine::QualityReport report = engine::run_quality(given);
    return answer_with(engine::quality_json(report), engine::quality_text(report), report.remarks,
                       options.out);
  }
  request.model = given.model;
  request.texts = given.texts;
  request.scored = given.scored;
  request.backend = given.backend;
  request.dtype = given.dtype;
  request.threads = given.threads;
  request.on_progress = [](const engine::QualityProgress& at) {
    write_progress(quality_progress_text(at));
  };
  if (!options.database.empty()) {  // a new one is made when there is something to store
    require_database(options.database);
  }
  const engine::LossyQualityReport report = engine::run_lossy_quality(request);
  if (!options.database.empty()) {
    store_quality(report, options);
  }
  return answer_with(engine::lossy_quality_json(report), engine::lossy_quality_text(report),
                     report.remarks, options.out);
}

}  // namespace

Run declare_quality(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  engine::QualityRequest& request = options->selections;
  app.add_option("--model", request.model, "model directory: config.json, weights, tokenizer")
      ->required();
  CLI::Option* const strategy =
      app.add_option("--strategy", options->strategies.strategies,
                     "strategy to measure beside the exact run; may be given more than once");
  CLI::Option* const tasks =
      app.add_option("--tasks", options->strategies.tasks,
                     "task set, as engine/demo/tasks/*.json; may be given more than once");
  app.add_option("--text", request.texts, "held-out text; may be given more than once");
  app.add_option("--scored", request.scored, "last tokens of each text that are scored");
  app.add_option("--decoded", options->strategies.decoded,
                 "tokens before a question that the strategy reads too");
  app.add_option("--questions", options->strategies.questions,
                 "questions of each set at most; all if left out");
  app.add_option("--cut", options->strategies.cut,
                 "with --strategy: rows of their own for every so many tokens of a text that are "
                 "decoded")
      ->needs(strategy);
  // Without a strategy or tasks: ways of reading fewer tokens, of a dense target with a dense
  // draft.
  const auto selection = [&](CLI::Option* option) { option->excludes(strategy)->excludes(tasks); };
  selection(app.add_option("--p", request.shares, "without --strategy: shares of the attention")
                ->delimiter(','));
  selection(app.add_option("--lookahead", request.lookahead, "so: drafted tokens a step"));
  selection(app.add_option("--chunk", request.chunk, "so: tokens that are read together"));
  selection(app.add_option("--iterations", request.iterations,
                           "so: halvings that find the least weight"));
  selection(app.add_option("--dense-layers", request.dense_layers,
                           "so: first layers that read everything"));
  selection(app.add_flag("--quest", request.per_token,
                         "so: pages chosen anew for each token too, a slow walk"));
  selection(app.add_option("--curve", request.curve,
                           "so: points of each perplexity over the scored tokens (8)"));
  CLI::Option* const database = app.add_option(
      "--db", options->database, "store what strategies cost in this database; made if not there");
  app.add_option("--split", options->split, "split of the texts and tasks, as it is stored (test)")
      ->needs(database);
  add_output(app, "--out", options->out, "write the answer to this JSON file");
  app.add_option("--backend", request.backend, "cpu, cuda or auto");
  app.add_option("--dtype", request.dtype, "f32, bf16 or f64 (cpu)");
  app.add_option("--threads", request.threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  request.on_text = [](const std::string& text) { write_progress(text + "\n"); };
  return [options] { return run_quality(*options); };
}

}  // namespace versieve::cli
