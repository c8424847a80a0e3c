// versieve diagnose: why speculation gains little, from what a database holds of one pair.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "db/evidence.h"
#include "engine/analyse/diagnose/diagnosis.h"
#include "engine/cli/commands.h"
#include "engine/cli/evidence.h"

namespace versieve::cli {
namespace {

struct Options {
  std::string database, pair, steps;
};

engine::AcceptancePair chosen_pair(const Options& options,
                                   const std::vector<PointMeasurement>& acceptance) {
  const std::vector<engine::AcceptancePair> pairs = engine::acceptance_pairs(acceptance);
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return options.pair.empty() || pair.name == options.pair || pair.sha256 == options.pair;
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
    if (engine::is_of(m, pair) && m.acceptance) {
      out.push_back(m);
    }
  }
  return out;
}

// Those of the model that is named, else of the pair's own name, else of any; of several the most.
// Another pair's of its name are nobody's here.
db::TimedSteps chosen_steps(const Options& options, const engine::AcceptancePair& pair) {
  std::vector<db::TimedSteps> all =
      db::timed_steps(db::Store::open(options.database, db::OpenMode::kReadOnly));
  std::erase_if(all, [&pair](const db::TimedSteps& steps) {
    return !steps.pair.empty() && !pair.sha256.empty() && steps.pair != pair.sha256;
  });
  const auto is_of = [](const std::string& model) {
    return [&model](const db::TimedSteps& steps) { return steps.model == model; };
  };
  if (!options.steps.empty() && std::none_of(all.begin(), all.end(), is_of(options.steps))) {
    throw Error(ExitCode::kAnswerNo,
                options.database + " holds no timed step of a model '" + options.steps + "'");
  }
  const std::string& wanted = options.steps.empty() ? pair.name : options.steps;
  if (std::any_of(all.begin(), all.end(), is_of(wanted))) {
    std::erase_if(all, [&wanted](const db::TimedSteps& steps) { return steps.model != wanted; });
  }
  const auto most = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.points.size() < b.points.size();
  });
  return most == all.end() ? db::TimedSteps() : *most;
}

Answer run_diagnose(const Options& options) {
  const std::vector<PointMeasurement> acceptance = read_acceptance(options.database);
  const engine::AcceptancePair pair = chosen_pair(options, acceptance);
  db::TimedSteps steps = chosen_steps(options, pair);
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
  return [options] { return run_diagnose(*options); };
}

}  // namespace versieve::cli
