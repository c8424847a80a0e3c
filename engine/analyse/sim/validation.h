// Simulated against counted, range by range and point by point: the errors that the simulator
// reports of itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/words/measurement.h"

namespace versieve::engine {

// DRAM bytes that nobody's launch moved are counted too: errors are relative to no less than this.
inline constexpr double kFloorBytes = 1e5;

// One range, or a whole point (path "all").
struct Comparison {
  std::string path;
  PointKey key;
  double counted_bytes = 0.0;  // DRAM, read and written
  double simulated_bytes = 0.0;
  double counted_read = 0.0;
  double simulated_read = 0.0;
  double counted_requests = 0.0;  // of L2
  double simulated_requests = 0.0;
  double counted_hit_rate = 0.0;  // of L2 requests
  double simulated_hit_rate = 0.0;

  double bytes_error() const;  // |simulated - counted| / max(counted, kFloorBytes)
  double read_error() const;
  double hit_rate_error() const;  // of 1; points / 100
};

// All ranges that both have, then the whole point. A range without counters is left out.
std::vector<Comparison> compare(const PointMeasurement& counted, const PointMeasurement& simulated);

struct SimulationErrors {
  std::string what;  // "all", "nsa_route", "L 4096", ...
  std::int64_t count = 0;
  double bytes_median = 0.0, bytes_p90 = 0.0;
  double read_median = 0.0, read_p90 = 0.0;
  double hit_rate_median = 0.0, hit_rate_p90 = 0.0;
};

// By whole point, then by system (all but NSA's attention), by launch, by context, queries and
// cache state. Points that move fewer DRAM bytes than kLeastJudgedBytes are a row of their own, the
// last; their launches count by launch.
std::vector<SimulationErrors> summarize(const std::vector<Comparison>& comparisons);
// A table, one line a summary.
std::string summary_text(const std::vector<SimulationErrors>& summaries);

}  // namespace versieve::engine
