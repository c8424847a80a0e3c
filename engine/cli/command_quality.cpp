// versieve quality: what a lossy choice costs on held-out text: strategies beside the exact run, or
// ways of reading fewer tokens beside each other.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/io/atomic_file.h"
#include "engine/run/quality/lossy_quality.h"
#include "engine/run/specattn/quality.h"

namespace versieve::cli {
namespace {

struct Options {
  engine::QualityRequest selections;
  engine::LossyQualityRequest strategies;  // the same model, texts, scored and device
  std::string out;
};

Answer answer_with(nlohmann::ordered_json found, std::string text,
                   const std::vector<std::string>& remarks, const std::string& out) {
  write_notes(remarks);
  if (!out.empty()) {
    engine::write_file_atomically(out, found.dump(1) + "\n");
  }
  return {.json = std::move(found), .text = std::move(text)};
}

Answer run_quality(Options& options) {
  engine::require_writable(options.out);
  const engine::QualityRequest& given = options.selections;
  engine::LossyQualityRequest& request = options.strategies;
  if (request.strategies.empty() && request.tasks.empty()) {
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
  request.on_progress = given.on_text;
  const engine::LossyQualityReport report = engine::run_lossy_quality(request);
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
  app.add_option("--out", options->out, "write the answer to this JSON file");
  app.add_option("--backend", request.backend, "cpu, cuda or auto");
  app.add_option("--dtype", request.dtype, "f32, bf16 (cuda) or f64 (cpu)");
  app.add_option("--threads", request.threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  request.on_text = [](const std::string& text) { write_progress(text + "\n"); };
  return [options] { return run_quality(*options); };
}

}  // namespace versieve::cli
