// How long a prompt takes to be read, by its length, as it was measured (`bench prefill`).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/words/evaluation.h"

namespace versieve {

struct PromptTimes {
  struct Point {
    std::int64_t tokens = 0;
    double ms = 0.0;    // median
    Interval interval;  // of the median, 95 %
  };
  std::string device;         // as the driver names it
  std::string geometry;       // of the target
  std::int64_t rows = 1;      // tokens in one forward
  std::vector<Point> points;  // ascending, at least one
  // When, as ISO 8601, and of which code; empty where the file says neither.
  std::string measured_utc, revision;
  std::string warning;  // why they may be of another engine, a sentence without its point; or empty
};

// Assumptions, in log: what another card of that kind differs by; a length between two measured
// ones; each doubling beyond the longest or below the shortest.
inline constexpr double kPromptCardError = 0.02;
inline constexpr double kPromptBetweenError = 0.02;
inline constexpr double kPromptDoublingError = 0.1;

struct PromptTime {
  double ms = 0.0;
  double log_error = 0.0;  // standard deviation
};
// Between measured lengths on a line of logarithms; beyond them along the nearest two, of one alone
// in proportion. REQUIRES: points, tokens >= 1.
PromptTime prompt_time(const PromptTimes& times, std::int64_t tokens);

}  // namespace versieve
