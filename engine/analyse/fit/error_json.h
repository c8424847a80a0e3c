// Errors as JSON, the same in every answer.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/analyse/fit/error_summary.h"

namespace versieve::engine {

inline nlohmann::ordered_json json_of(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

inline nlohmann::ordered_json json_of(const ErrorSummary& e) {
  return {{"points", e.points},
          {"median_ape", json_of(e.median_ape)},
          {"p90_ape", json_of(e.p90_ape)},
          {"median_signed", json_of(e.median_signed)}};
}

}  // namespace versieve::engine
