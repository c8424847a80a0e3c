// versieve align: which draft layer's attention chooses tokens for each target layer.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/io/atomic_file.h"
#include "engine/run/specattn/align_request.h"

namespace versieve::cli {
namespace {

struct Options {
  engine::AlignRequest request;
  std::string out;
};

Answer run_align(const Options& options) {
  engine::require_other_files(options.request.texts, options.out);
  engine::require_writable(options.out);
  const engine::AlignReport report = engine::run_alignment(options.request);
  write_notes(report.remarks);
  const nlohmann::ordered_json map = engine::alignment_json(report);
  engine::write_file_atomically(options.out, map.dump(1) + "\n");
  return {.json = map, .text = engine::alignment_text(report)};
}

}  // namespace

Run declare_align(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  engine::AlignRequest& request = options->request;
  app.add_option("--model", request.model, "directory of a dense target with a dense draft/")
      ->required();
  app.add_option("--text", request.texts, "calibration text; may be given more than once")
      ->required();
  add_output(app, "--out", options->out,
             "JSON file for the map; generate looks for layer_map.json in the model directory")
      ->required();
  app.add_option("--stride", request.stride, "every so many positions one is compared");
  app.add_option("--first", request.first, "the first position that may be compared");
  app.add_option("--dense-layers", request.dense_layers, "first target layers, which read all");
  app.add_option("--dense-draft-layers", request.dense_draft_layers,
                 "first draft layers that may not choose for the others; 0 leaves none out");
  app.add_option("--backend", request.backend, "cpu, cuda or auto");
  app.add_option("--dtype", request.dtype, "f32, bf16 or f64 (cpu)");
  app.add_option("--threads", request.threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  return [options] { return run_align(*options); };
}

}  // namespace versieve::cli
