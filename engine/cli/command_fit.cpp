// versieve fit: fits the cost model to a device's points and says how well it predicts unseen ones.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <optional>

#include "db/store.h"
#include "engine/analyse/fit/carry_over.h"
#include "engine/analyse/fit/fit_file.h"
#include "engine/analyse/fit/fit_report.h"
#include "engine/cli/argument_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/evidence.h"
#include "engine/io/atomic_file.h"
#include "engine/io/formatted.h"
#include "engine/measure/sweep/sweep.h"
#include "model/plan/planner.h"
#include "model/plan/system_grid.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string database, device, hardware, out, report, predict, model;
  std::optional<std::string> prior, elsewhere;
  std::int64_t context = 0;
  double temperature = 0.0;
  std::optional<std::int64_t> draft_vocab;
  bool quick = false;
  bool afresh = false;
  double holdout = 0.2;
};

nlohmann::json parts_json(const std::vector<StepPart>& parts) {
  nlohmann::json out = nlohmann::json::array();
  for (const StepPart& p : parts) {
    out.push_back({{"launch", p.name},
                   {"phase", name_of(p.phase)},
                   {"layer", name_of(p.layer)},
                   {"launches", p.launches},
                   {"time_us", p.time_us},
                   {"dram_bytes", p.dram_bytes},
                   {"floor_us", p.floor_us},
                   {"bound", name_of(bottleneck_of(p))}});
  }
  return out;
}

std::string part_line(const StepPart& p, double step_us) {
  const std::string what =
      std::string(name_of(p.phase)) + (p.layer == LayerKind::kNone ? "" : ", ") + name_of(p.layer);
  return engine::formatted("  %-18s %-20s %8.1f %9.1f %6.1f %% %10.2f %9.1f %7.0f %%  %s\n",
                           p.name.c_str(), what.c_str(), p.launches, p.time_us,
                           100.0 * p.time_us / step_us, p.dram_bytes / 1e6, p.floor_us,
                           100.0 * p.floor_us / p.time_us, name_of(bottleneck_of(p)));
}

// The step by its launches: what each adds, and how near it is to moving its bytes alone.
std::string parts_text(const std::vector<StepPart>& parts, double step_us) {
  std::string text =
      engine::formatted("  %-18s %-20s %8s %9s %8s %10s %9s %9s  %s\n", "launch", "part",
                        "launches", "us", "of step", "DRAM MB", "floor us", "of floor", "bound by");
  StepPart sum{.name = "step"};
  for (const StepPart& p : parts) {
    text += part_line(p, step_us);
    sum.launches += p.launches;
    sum.dram_bytes += p.dram_bytes;
    sum.floor_us += p.floor_us;
  }
  return text + engine::formatted("  %-39s %8.1f %9.1f %8s %10.2f %9.1f %7.0f %%\n", "step",
                                  sum.launches, step_us, "", sum.dram_bytes / 1e6, sum.floor_us,
                                  100.0 * sum.floor_us / step_us);
}

// One step of the fitted geometry or another, or why the data do not reach it. Of a pair by its
// folder: by its own timed steps, where the database holds any.
Answer prediction(const Options& options, const std::optional<engine::PairShape>& asked,
                  FittedModel model) {
  const engine::PairShape pair =
      asked ? *asked : engine::pair_shape(model.geometry, options.draft_vocab);
  const engine::KnownPair known = known_pair(pair, options.database, model.device);
  engine::use_pair(known, pair, {}, /*names_acceptance=*/false, model);
  const bool own_steps = known.id && model.steps_pair == known.id->sha256;
  model.temperature = options.temperature;
  const Strategy strategy = Strategy::parse(options.predict);
  if (options.draft_vocab && (!strategy.draft.speculates() || strategy.drafts_itself)) {
    throw Error(ExitCode::kUsage,
                "--draft-vocab is of a draft head, and '" + strategy.text() + "' drafts with none");
  }
  std::string outside;
  if (pair.target.attention == AttentionKind::kDense ||
      strategy.attention == AttentionMethod::kNsa) {
    outside = illegal_because(strategy, pair.target);
  }
  if (outside.empty() && strategy.draft.speculates() && !strategy.drafts_itself &&
      (pair.draft_model || !pair.drafts)) {
    outside = pair.drafts ? "a draft that is a model of its own is priced by `versieve plan` alone"
                          : "the pair has no draft";
  }
  if (!outside.empty()) {
    throw Error(ExitCode::kAnswerNo, "'" + strategy.text() + "': " + outside);
  }
  double half = 0.0;
  if (strategy.attention == AttentionMethod::kNsa) {
    outside = model.outside_because(options.context, strategy.draft.nodes);
    half = model.half_width(options.context - 1, options.context);
  } else if (const auto evidence = system_evidence(strategy, model, options.context, outside)) {
    half = evidence->log_latency;
  }
  if (!outside.empty()) {
    throw Error(ExitCode::kAnswerNo, outside);
  }
  const std::string& geometry = pair.target.name;
  const HardwareSpec& hardware = hardware_by_key(model.hardware_key);
  const double us =
      predicted_step_us(model, hardware, pair.target, pair.draft, strategy, options.context);
  const std::vector<StepPart> parts =
      predicted_step_parts(model, hardware, pair.target, pair.draft, strategy, options.context);
  const bool other = geometry != model.geometry && model.steps_of(geometry) == 0;
  const std::string text =
      formatted(" at L %lld: %.1f us, 90 %% within %.1f to %.1f us%s\n",
                static_cast<long long>(options.context), us, us * std::exp(-half),
                us * std::exp(half), other ? "; the model was fitted to another geometry" : "");
  const std::string source = own_steps ? "by " + std::to_string(model.steps.size()) +
                                             " timed steps of " + text_of(*known.id) + "\n"
                                       : std::string();
  return {.json = {{"strategy", strategy.text()},
                   {"model", geometry},
                   {"times", own_steps || !other ? "own" : "borrowed"},
                   {"context_len", options.context},
                   {"temperature", options.temperature},
                   {"time_us", us},
                   {"interval_us", {us * std::exp(-half), us * std::exp(half)}},
                   {"parts", parts_json(parts)}},
          .text = (other ? geometry + " " : std::string()) + strategy.text() + text + source +
                  parts_text(parts, us)};
}

// Points of another machine than the fit's, and its entry.
struct Elsewhere {
  db::Evidence evidence;
  const HardwareSpec* hardware;
};

Elsewhere read_elsewhere(const std::string& database, const std::string& fitted_device) {
  Elsewhere out{read_evidence(database, "", ""), nullptr};
  out.hardware = hardware_for_device(out.evidence.device);
  if (out.hardware == nullptr) {
    throw Error(ExitCode::kAnswerNo, "the catalogue has no entry for the device '" +
                                         out.evidence.device + "' of " + database);
  }
  if (out.evidence.device == fitted_device) {
    throw Error(ExitCode::kAnswerNo, database + " holds points of '" + fitted_device +
                                         "', to whose points the fit is made: --carry-to takes "
                                         "those of another machine");
  }
  return out;
}

Answer run_fit(const Options& options) {
  if (!(options.holdout >= 0.0 && options.holdout < 1.0)) {
    throw Error(ExitCode::kUsage, "--holdout is a share of the points, from 0 to below 1");
  }
  std::optional<engine::PairShape> asked;  // before a fit is made for it
  if (!options.model.empty()) {
    asked = pair_shape(options.model, options.draft_vocab, options.database);
  }
  engine::require_two_files(options.out, options.report);
  for (const std::string& out : {options.out, options.report}) {
    engine::require_other_file(options.prior.value_or(""), out);
    engine::require_writable(out);
  }
  if (options.elsewhere) {  // a wrong name is said before points are read, which takes seconds
    db::Store::open(*options.elsewhere, db::OpenMode::kReadOnly);
  }
  if (options.prior) {
    check_prior(*options.prior);
  }
  const db::Evidence evidence = read_evidence(options.database, options.device, "");
  std::optional<Elsewhere> elsewhere;  // before a fit is made for it
  if (options.elsewhere) {
    elsewhere = read_elsewhere(*options.elsewhere, evidence.device);
  }
  const engine::FitReport report = fit_evidence(
      evidence, options.hardware, {.holdout = options.holdout, .leave_out_regimes = !options.quick},
      options.prior, options.afresh);
  const std::string json = engine::fit_json(report);
  if (!options.out.empty()) {
    engine::write_file_atomically(options.out, json);
  }
  if (!options.report.empty()) {
    engine::write_file_atomically(options.report, engine::fit_html(report));
  }
  if (!options.predict.empty()) {
    return prediction(options, asked, report.model);
  }
  if (elsewhere) {
    const engine::CarryReport carried = engine::carry_over(
        report.model, elsewhere->evidence.points, elsewhere->evidence.device, *elsewhere->hardware);
    return {.json = nlohmann::json::parse(engine::carry_json(carried)),
            .text = engine::carry_text(carried)};
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
  app.add_option("--prior", options->prior,
                 "fit of another machine to begin at (its JSON file, or a database): its "
                 "parameters are carried over by measured rates, and the points of --db say what "
                 "they miss there");
  app.add_option("--holdout", options->holdout, "share of the points kept unseen");
  add_output(app, "--out", options->out, "also write the fit to this JSON file, for plan --fit");
  add_output(app, "--report", options->report, "also write the validation as one HTML page");
  CLI::Option* const predict = app.add_option(
      "--predict", options->predict,
      "answer with the step time of this strategy, at --context, launch by launch; refused outside "
      "the measured regimes");
  app.add_option("--context", options->context, "context length of --predict")->needs(predict);
  app.add_option("--temperature", options->temperature,
                 "of --predict: that the step's tokens are drawn at; 0, greedily, if left out")
      ->needs(predict)
      ->check(CLI::Range(0.0, engine::kMostTemperature));
  app.add_option("--model", options->model,
                 "geometry of --predict: demo, nsa-1b, nsa-8b, each also with its draft's tokens "
                 "(nsa-1b:v32000), or the folder of a trained pair; the fitted one if left out")
      ->needs(predict);
  app.add_option("--draft-vocab", options->draft_vocab,
                 "tokens that the draft of --predict can propose, if not those of its pair")
      ->needs(predict);
  app.add_option("--carry-to", options->elsewhere,
                 "answer with how well the fit, carried over by data sheet and by measured rates, "
                 "predicts the points of this database of another machine")
      ->excludes(predict);
  app.add_flag("--quick", options->quick, "leave no regimes out: no second round of fits");
  app.add_flag("--afresh", options->afresh,
               "fit again, though the fit to these very points is kept beside the database");
  return [options] { return run_fit(*options); };
}

}  // namespace versieve::cli
