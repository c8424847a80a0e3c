// versieve diagnose: why speculation gains little, from what a database holds of one pair.
#include <CLI/CLI.hpp>
#include <memory>

#include "engine/analyse/diagnose/diagnosis.h"
#include "engine/analyse/serve/serving_file.h"
#include "engine/analyse/serve/serving_text.h"
#include "engine/cli/commands.h"
#include "engine/cli/evidence.h"
#include "engine/cli/pair_points.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string database, pair, steps, hardware;
};

constexpr const char* kIdleHardware =
    "its roofline is asked where nothing was timed, or it is the device's own";

nlohmann::json cells_of(const PairSchedule& made) {
  return nlohmann::json::parse(engine::serving_schedule_json(made.schedule)).at("cells");
}

// Whether the machine that was named tells no more than the device's own.
bool is_idle_hardware(const Options& options, const engine::AcceptancePair& pair,
                      const std::vector<PointMeasurement>& acceptance, const PairSchedule& made) {
  if (options.hardware.empty()) {
    return false;
  }
  try {
    return cells_of(pair_schedule(options.database, pair, acceptance, options.steps, "")) ==
           cells_of(made);
  } catch (const Error&) {
    return false;  // without it there is no answer
  }
}

// By batch and context, where the points tell it: an answer of its own, or why there is none.
void add_schedule(const Options& options, const engine::AcceptancePair& pair,
                  const std::vector<PointMeasurement>& acceptance, Answer& answer) {
  try {
    const PairSchedule made =
        pair_schedule(options.database, pair, acceptance, options.steps, options.hardware);
    answer.json["serving"] = cells_of(made);
    answer.text +=
        "does it pay, by requests at a time and context:\n" + engine::serving_text(made.schedule);
    if (is_idle_hardware(options, pair, acceptance, made)) {
      answer.json["hardware_changes"] = false;
      answer.text += "--hardware changed nothing: " + std::string(kIdleHardware) + "\n";
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kAnswerNo) {
      throw;
    }
    answer.json["serving"] = nullptr;
    answer.json["serving_lacks"] = error.what();
    answer.text += std::string("by requests at a time: ") + error.what() + "\n";
  }
}

Answer run_diagnose(const Options& options) {
  const std::vector<PointMeasurement> acceptance = read_acceptance(options.database);
  const engine::AcceptancePair pair = chosen_pair(options.database, options.pair, acceptance);
  db::TimedSteps steps = chosen_steps(options.database, options.steps, pair);
  const engine::DiagnosisInput input{.evidence = engine::acceptance_evidence(acceptance, pair),
                                     .acceptance = points_of(pair, acceptance),
                                     .steps = std::move(steps.points),
                                     .device = steps.device,
                                     .hardware = hardware_for_device(steps.device)};
  const std::vector<engine::Finding> findings = engine::diagnose(input);
  Answer answer{.json = {{"pair", pair.name},
                         {"origin", name_of(pair.origin)},
                         {"points", pair.points},
                         {"bonus_counted", true},
                         {"steps_of", steps.model},
                         {"device", input.device},
                         {"findings", nlohmann::json::array()}}};
  for (const engine::Finding& f : findings) {
    answer.json["findings"].push_back({{"rule", f.rule},
                                       {"verdict", name_of(f.verdict)},
                                       {"sentence", f.sentence},
                                       {"advice", f.advice}});
  }
  answer.text = engine::listed({pair}) +
                (steps.model.empty() ? std::string("; no timed steps")
                                     : "; steps of " + steps.model + " on " + input.device) +
                "; tokens a step count the bonus token\n" + engine::findings_text(findings);
  add_schedule(options, pair, acceptance, answer);
  return answer;
}

}  // namespace

Run declare_diagnose(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--db", options->database, "database of measured or imported points")->required();
  app.add_option(
      "--pair", options->pair,
      "pair to diagnose, by its name or its hash; the measured one with most points if left "
      "out");
  app.add_option("--steps", options->steps,
                 "model whose timed steps are taken for the pair's; the pair's own if it has any");
  app.add_option("--hardware", options->hardware,
                 "machine whose roofline tells what larger batches cost where nothing was timed: a "
                 "catalogue key or a JSON file; the device's own if left out");
  return [options] { return run_diagnose(*options); };
}

}  // namespace versieve::cli
