// The law of a step's energy as fits and planner tables write it.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "model/cost/energy_law.h"
#include "model/words/error.h"

namespace versieve::engine {

inline nlohmann::ordered_json energy_json(const EnergyLaw& law) {
  return {{"points", law.points},
          {"watts", law.watts},
          {"joules_per_byte", law.joules_per_byte},
          {"joules_per_flop", law.joules_per_flop},
          {"log_error", law.log_error},
          {"most_requests", law.most_requests}};
}

// Throws nlohmann's exceptions where a key is missing or of another type, and Error(kBadInput)
// naming `source` for numbers that are of no law.
inline EnergyLaw energy_law(const nlohmann::json& json, const std::string& source) {
  const EnergyLaw law{.points = json.at("points").get<std::int64_t>(),
                      .watts = json.at("watts").get<double>(),
                      .joules_per_byte = json.at("joules_per_byte").get<double>(),
                      .joules_per_flop = json.at("joules_per_flop").get<double>(),
                      .log_error = json.at("log_error").get<double>(),
                      .most_requests = json.at("most_requests").get<std::int64_t>()};
  const double all = law.watts + law.joules_per_byte + law.joules_per_flop;
  const bool sound = law.points > 0 && law.watts >= 0.0 && law.joules_per_byte >= 0.0 &&
                     law.joules_per_flop >= 0.0 && law.log_error >= 0.0 && all > 0.0 &&
                     std::isfinite(all + law.log_error);
  if (!sound) {
    throw Error(ExitCode::kBadInput,
                source + ": its law of energy needs points and numbers of at least 0, not all 0");
  }
  return law;
}

}  // namespace versieve::engine
