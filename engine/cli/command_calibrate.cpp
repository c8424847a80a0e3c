// versieve calibrate: finds a schedule of refresh and reuse layers within a loss budget.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/output.h"
#include "engine/io/atomic_file.h"
#include "engine/io/formatted.h"
#include "engine/run/calibrate/calibrate_request.h"

namespace versieve::cli {
namespace {

struct Options {
  engine::CalibrateRequest request;
  std::string out;
};

Answer run_calibrate(const Options& options) {
  engine::require_other_files(options.request.texts, options.out);
  engine::require_writable(options.out);
  const engine::CalibrateReport report = engine::run_calibration(options.request);
  write_notes(report.remarks);
  const nlohmann::ordered_json curve = engine::calibration_json(report);
  engine::write_file_atomically(options.out, curve.dump(1) + "\n");
  return {.json = curve, .text = engine::calibration_text(report)};
}

}  // namespace

Run declare_calibrate(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  engine::CalibrateRequest& request = options->request;
  app.add_option("--model", request.model, "model directory: config.json, weights, tokenizer")
      ->required();
  app.add_option("--text", request.texts,
                 "held-out text whose bytes are predicted; may be given more than once")
      ->required();
  app.add_option("--budget", request.budget,
                 "how much the mean loss may rise over all-F, in nats a token")
      ->required();
  add_output(app, "--out", options->out, "JSON file for the schedule and its loss curve")
      ->required();
  app.add_option("--backend", request.backend, "cpu, cuda or auto");
  app.add_option("--dtype", request.dtype, "f32, bf16 or f64 (cpu)");
  app.add_option("--threads", request.threads, "CPU threads; all if left out")
      ->check(CLI::Range(1, 1024));
  request.on_loss = [](const std::string& schedule, double loss) {
    write_progress(formatted("%s %.6f\n", schedule.c_str(), loss));
  };
  return [options] { return run_calibrate(*options); };
}

}  // namespace versieve::cli
