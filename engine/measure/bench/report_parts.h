// What reports of several benches begin with and hold, as JSON and as text.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "engine/io/formatted.h"
#include "profiler/sample_statistics.h"

namespace versieve::engine {

inline constexpr const char* kMedianInterval = "95 % order statistics of the median";

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

inline nlohmann::ordered_json summary_json(const profiler::SampleSummary& s) {
  return {{"median", s.median}, {"low", s.median_low}, {"high", s.median_high}, {"mad", s.mad}};
}

// "    123.4 [   120.0,    125.6]"
inline std::string summary_text(const profiler::SampleSummary& s) {
  return formatted("%9.1f [%8.1f, %8.1f]", s.median, s.median_low, s.median_high);
}

// Which bench, where, of what.
template <class Bench>
nlohmann::ordered_json head_json(const char* name, const Bench& b, const std::string& geometry) {
  return {{"bench", name},
          {"device", b.device},
          {"backend", b.backend},
          {"dtype", b.dtype},
          {"geometry", geometry}};
}

// "WHAT, synthetic weights, bf16, on DEVICE (cuda)CONDITIONS, median of 30 [95 % interval], us\n"
template <class Bench>
std::string head_text(const std::string& what, const Bench& b, const std::string& conditions,
                      const char* unit) {
  return what + ", synthetic weights, " + b.dtype + ", on " + b.device + " (" + b.backend + ")" +
         conditions + ", median of " + std::to_string(b.options.samples) + " [95 % interval], " +
         unit + "\n";
}

}  // namespace versieve::engine
