// Settings of ReSA and SpecAttn as somebody gives them to a plan, several with commas. The command
// and the app read them alike.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "model/plan/system_settings.h"

namespace versieve::engine {

// As text; none: the usual ones.
struct GivenSystems {
  std::optional<std::string> resa_block_size;  // "16,32"
  std::optional<std::string> resa_ratio;       // "0.05,0.1"
  std::optional<std::string> resa_rectify;     // "32"
  std::optional<std::string> specattn_mass;    // "0.97"

  bool operator==(const GivenSystems&) const = default;
};

// One of them: the command's option, and the app's field.
struct SystemOption {
  const char* flag;
  std::optional<std::string> GivenSystems::*given;
  const char* label;  // of the field
  const char* help;
};
std::span<const SystemOption> system_options();

// What a plan goes over. Throws Error(kUsage), naming the option and what it takes, for an empty
// list and for a setting that no strategy has.
SystemSettings planned_systems(const GivenSystems& given);

}  // namespace versieve::engine
