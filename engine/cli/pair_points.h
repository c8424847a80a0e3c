// Points of one pair for a command that judges or schedules it: whose acceptance, whose steps,
// which device.
#pragma once

#include <string>
#include <vector>

#include "db/evidence.h"
#include "engine/analyse/fit/acceptance_evidence.h"
#include "engine/analyse/serve/serving_schedule.h"

namespace versieve::cli {

// Empty `wanted`: the measured one with most points. Throws Error(kAnswerNo) naming those there
// are.
engine::AcceptancePair chosen_pair(const std::string& database, const std::string& wanted,
                                   const std::vector<PointMeasurement>& acceptance);
// Its acceptance on greedy texts: sampled ones yield other tokens a step.
std::vector<PointMeasurement> points_of(const engine::AcceptancePair& pair,
                                        const std::vector<PointMeasurement>& acceptance);
// Timed steps of the model that `wanted` names, else of the pair's own name, else of any; of
// several the most. Another pair's of its name are nobody's here. Throws Error(kAnswerNo).
db::TimedSteps chosen_steps(const std::string& database, const std::string& wanted,
                            const engine::AcceptancePair& pair);
// Where the pair's acceptance was measured; of several devices the last that was stored.
std::string device_of(const std::string& database, const engine::AcceptancePair& pair);

// Steps of another model than the pair's are taken only where they were asked for (`wanted_steps`).
// `hardware`: a catalogue key or a file; empty: by the device's name, if the catalogue has it.
struct PairSchedule {
  engine::ServingSchedule schedule;
  std::string steps_of;  // empty: no steps
};
PairSchedule pair_schedule(const std::string& database, const engine::AcceptancePair& pair,
                           const std::vector<PointMeasurement>& acceptance,
                           const std::string& wanted_steps, const std::string& hardware);

}  // namespace versieve::cli
