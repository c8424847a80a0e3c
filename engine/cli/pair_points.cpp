#include "engine/cli/pair_points.h"

#include <algorithm>

#include "db/store.h"
#include "engine/analyse/plan/hardware_file.h"
#include "model/words/error.h"

namespace versieve::cli {

engine::AcceptancePair chosen_pair(const std::string& database, const std::string& wanted,
                                   const std::vector<PointMeasurement>& acceptance) {
  const std::vector<engine::AcceptancePair> pairs = engine::acceptance_pairs(acceptance);
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) {
    return wanted.empty() || pair.name == wanted || pair.sha256 == wanted;
  });
  if (found == pairs.end()) {
    throw Error(ExitCode::kAnswerNo,
                (wanted.empty() ? database + " holds no acceptance to go by"
                                : "there is no acceptance of a pair '" + wanted + "'") +
                    ": it holds " + engine::listed(pairs));
  }
  return *found;
}

std::vector<PointMeasurement> points_of(const engine::AcceptancePair& pair,
                                        const std::vector<PointMeasurement>& acceptance) {
  std::vector<PointMeasurement> out;
  for (const PointMeasurement& m : acceptance) {
    if (engine::is_of(m, pair) && m.acceptance && m.key.temperature == 0.0) {
      out.push_back(m);
    }
  }
  return out;
}

db::TimedSteps chosen_steps(const std::string& database, const std::string& wanted_model,
                            const engine::AcceptancePair& pair) {
  std::vector<db::TimedSteps> all =
      db::timed_steps(db::Store::open(database, db::OpenMode::kReadOnly));
  std::erase_if(all, [&pair](const db::TimedSteps& steps) {
    return !steps.pair.empty() && !pair.sha256.empty() && steps.pair != pair.sha256;
  });
  const auto is_of = [](const std::string& model) {
    return [&model](const db::TimedSteps& steps) { return steps.model == model; };
  };
  if (!wanted_model.empty() && std::none_of(all.begin(), all.end(), is_of(wanted_model))) {
    throw Error(ExitCode::kAnswerNo,
                database + " holds no timed step of a model '" + wanted_model + "'");
  }
  const std::string& wanted = wanted_model.empty() ? pair.name : wanted_model;
  if (std::any_of(all.begin(), all.end(), is_of(wanted))) {
    std::erase_if(all, [&wanted](const db::TimedSteps& steps) { return steps.model != wanted; });
  }
  const auto most = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.points.size() < b.points.size();
  });
  return most == all.end() ? db::TimedSteps() : *most;
}

std::string device_of(const std::string& database, const engine::AcceptancePair& pair) {
  const db::Store store = db::Store::open(database, db::OpenMode::kReadOnly);
  std::string out;
  for (const db::StoredRun& run : store.runs()) {
    const std::vector<PointMeasurement> points =
        is_simulated(run.record)
            ? std::vector<PointMeasurement>()
            : store.points({.run_id = run.id, .workload = WorkloadKind::kAcceptance});
    const bool is_its = std::any_of(points.begin(), points.end(), [&](const PointMeasurement& m) {
      return engine::is_of(m, pair);
    });
    out = is_its ? run.record.device : out;
  }
  return out;
}

PairSchedule pair_schedule(const std::string& database, const engine::AcceptancePair& pair,
                           const std::vector<PointMeasurement>& acceptance,
                           const std::string& wanted_steps, const std::string& hardware) {
  db::TimedSteps steps = chosen_steps(database, wanted_steps, pair);
  const bool are_its = !wanted_steps.empty() || steps.model == pair.name;
  const std::string device =
      are_its && !steps.device.empty() ? steps.device : device_of(database, pair);
  std::optional<HardwareSpec> given;
  if (!hardware.empty()) {
    given = engine::load_hardware(hardware);
  }
  const engine::ServingInput input{
      .pair = pair,
      .acceptance = points_of(pair, acceptance),
      .steps = are_its ? std::move(steps.points) : std::vector<PointMeasurement>(),
      .device = device,
      .hardware = given ? &*given : hardware_for_device(device)};
  return {.schedule = engine::serving_schedule(input), .steps_of = are_its ? steps.model : ""};
}

}  // namespace versieve::cli
