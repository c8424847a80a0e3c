// A replay as JSON (keys that others rely on: rows, mean_gain) and as tables for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/analyse/replay/replay.h"

namespace versieve::engine {

nlohmann::json replay_json(const PlanTable& table, const Replay& replay);
std::string replay_text(const PlanTable& table, const Replay& replay);

nlohmann::json settings_json(const std::vector<GuardSetting>& settings);
std::string settings_text(const std::vector<GuardSetting>& settings);

}  // namespace versieve::engine
