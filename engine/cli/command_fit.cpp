// versieve fit: fits the cost model to a device's points and says how well it predicts unseen ones.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/cli/commands.h"
#include "engine/cli/evidence.h"
#include "engine/fit/fit_file.h"
#include "engine/io/atomic_file.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string database, device, hardware, out;
  double holdout = 0.2;
};

Answer run_fit(const Options& options) {
  if (!(options.holdout >= 0.0 && options.holdout < 1.0)) {
    throw Error(ExitCode::kUsage, "--holdout is a share of the points, from 0 to below 1");
  }
  const Evidence evidence = read_evidence(options.database, options.device, "");
  const engine::FitReport report = fit_evidence(evidence, options.hardware, options.holdout);
  const std::string json = engine::fit_json(report);
  if (!options.out.empty()) {
    engine::write_file_atomically(options.out, json);
  }
  return {.json = nlohmann::json::parse(json), .text = engine::fit_text(report)};
}

}  // namespace

Run declare_fit(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--db", options->database, "database of measured points")->required();
  app.add_option("--device", options->device,
                 "part of the device's name; the one with most points if left out");
  app.add_option("--hardware", options->hardware,
                 "catalogue key or JSON file of that device; by its name if left out");
  app.add_option("--holdout", options->holdout, "share of the points kept unseen");
  app.add_option("--out", options->out, "also write the fit to this JSON file, for plan --fit");
  return [options] { return run_fit(*options); };
}

}  // namespace versieve::cli
