// versieve diagnose: why speculation gains little, from what a database holds of one pair.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>

#include "db/store.h"
#include "engine/cli/commands.h"
#include "engine/cli/evidence.h"
#include "engine/diagnose/diagnosis.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string database, pair, steps;
};

engine::AcceptancePair chosen_pair(const Options& options,
                                   const std::vector<PointMeasurement>& acceptance) {
  const std::vector<engine::AcceptancePair> pairs = engine::acceptance_pairs(acceptance);
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return options.pair.empty() || pair.name == options.pair;
  });
  if (found == pairs.end()) {
    throw Error(ExitCode::kAnswerNo,
                (options.pair.empty() ? options.database + " holds nothing to diagnose"
                                      : "there is no acceptance of a pair '" + options.pair + "'") +
                    ": it holds " + engine::listed(pairs));
  }
  return *found;
}

std::vector<PointMeasurement> points_of(const engine::AcceptancePair& pair,
                                        const std::vector<PointMeasurement>& acceptance) {
  std::vector<PointMeasurement> out;
  for (const PointMeasurement& m : acceptance) {
    const bool imported = pair.origin == AcceptanceOrigin::kImported;
    if (m.key.model == pair.name && is_imported(m) == imported && m.acceptance) {
      out.push_back(m);
    }
  }
  return out;
}

// Timed whole steps by device, of the model that is named, else of the pair's own name, else of
// whichever has most. Simulated ones are predictions.
using StepsByDevice = std::map<std::string, std::vector<PointMeasurement>>;

StepsByDevice timed_steps(const db::Store& store, const std::string& model) {
  StepsByDevice out;
  for (const db::StoredRun& run : store.runs()) {
    if (is_simulated(run.record)) {
      continue;
    }
    for (PointMeasurement& m :
         store.points({.run_id = run.id, .workload = WorkloadKind::kStep, .only_ok = true})) {
      if (!m.time_ns.empty() && (model.empty() || m.key.model == model)) {
        out[run.record.device].push_back(std::move(m));
      }
    }
  }
  return out;
}

std::string most_timed_model(const StepsByDevice& steps) {
  std::map<std::string, std::size_t> counts;
  for (const auto& [device, points] : steps) {
    for (const PointMeasurement& m : points) {
      counts[m.key.model] += 1;
    }
  }
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::string() : most->first;
}

void add_steps(const Options& options, const std::string& model, engine::DiagnosisInput& input) {
  const db::Store store = db::Store::open(options.database, db::OpenMode::kReadOnly);
  const StepsByDevice steps = timed_steps(store, model);
  const auto most = std::max_element(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (most != steps.end()) {
    input.device = most->first;
    input.steps = most->second;
    input.hardware = hardware_for_device(input.device);
  }
}

std::string steps_model(const Options& options, const std::string& pair) {
  const db::Store store = db::Store::open(options.database, db::OpenMode::kReadOnly);
  if (!options.steps.empty()) {
    if (timed_steps(store, options.steps).empty()) {
      throw Error(ExitCode::kAnswerNo,
                  options.database + " holds no timed step of a model '" + options.steps + "'");
    }
    return options.steps;
  }
  return timed_steps(store, pair).empty() ? most_timed_model(timed_steps(store, "")) : pair;
}

Answer run_diagnose(const Options& options) {
  const std::vector<PointMeasurement> acceptance = read_acceptance(options.database);
  const engine::AcceptancePair pair = chosen_pair(options, acceptance);
  engine::DiagnosisInput input{.evidence = engine::acceptance_evidence(acceptance, pair),
                               .acceptance = points_of(pair, acceptance)};
  const std::string model = steps_model(options, pair.name);
  add_steps(options, model, input);
  const std::vector<engine::Finding> findings = engine::diagnose(input);
  Answer answer{.json = {{"pair", pair.name},
                         {"origin", name_of(pair.origin)},
                         {"points", pair.points},
                         {"steps_of", model},
                         {"device", input.device},
                         {"findings", nlohmann::json::array()}}};
  for (const engine::Finding& f : findings) {
    answer.json["findings"].push_back({{"rule", f.rule},
                                       {"verdict", name_of(f.verdict)},
                                       {"sentence", f.sentence},
                                       {"advice", f.advice}});
  }
  answer.text = engine::listed({pair}) +
                (model.empty() ? std::string("; no timed steps")
                               : "; steps of " + model + " on " + input.device) +
                "\n" + engine::findings_text(findings);
  return answer;
}

}  // namespace

Run declare_diagnose(CLI::App& app, const CommandContext&) {
  const auto options = std::make_shared<Options>();
  app.add_option("--db", options->database, "database of measured or imported points")->required();
  app.add_option("--pair", options->pair,
                 "pair to diagnose, by its model's name; the measured one with most points if left "
                 "out");
  app.add_option("--steps", options->steps,
                 "model whose timed steps are taken for the pair's; the pair's own if it has any");
  return [options] { return run_diagnose(*options); };
}

}  // namespace versieve::cli
