// versieve quality: what reading fewer tokens costs on held-out text.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/io/atomic_file.h"
#include "engine/run/specattn/quality.h"

namespace versieve::cli {
namespace {

struct Options {
  engine::QualityRequest request;
  std::string out;
};

Answer run_quality(const Options& options) {
  engine::require_writable(options.out);
  const engine::QualityReport report = engine::run_quality(options.request);
  write_notes(report.remarks);
  const nlohmann::ordered_json found = engine::quality_json(report);
  if (!options.out.empty()) {
    engine::write_file_atomically(options.out, found.dump(1) + "\n");
  }
  return {.json = found, .text = engine::quality_text(report)};
}

}  // namespace

Run declare_quality(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  engine::QualityRequest& request = options->request;
  app.add_option("--model", request.model,
                 "directory of a dense target with a dense draft/ and layer_map.json")
      ->required();
  app.add_option("--text", request.texts, "held-out text; may be given more than once")->required();
  app.add_option("--p", request.shares, "shares of the attention mass, as 0.9,0.97")
      ->delimiter(',');
  app.add_option("--lookahead", request.lookahead, "drafted tokens a step");
  app.add_option("--scored", request.scored, "last tokens of each text that are scored");
  app.add_option("--chunk", request.chunk, "tokens that are read together");
  app.add_option("--iterations", request.iterations, "halvings that find the least weight");
  app.add_option("--dense-layers", request.dense_layers, "first layers that read everything");
  app.add_option("--out", options->out, "write the answer to this JSON file");
  app.add_option("--backend", request.backend, "cpu, cuda or auto");
  app.add_option("--dtype", request.dtype, "f32, bf16 (cuda) or f64 (cpu)");
  app.add_option("--threads", request.threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  request.on_text = [](const std::string& text) { write_progress(text + "\n"); };
  return [options] { return run_quality(*options); };
}

}  // namespace versieve::cli
