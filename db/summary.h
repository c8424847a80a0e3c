// A point in a few numbers, computed once when it is stored.
#pragma once

#include <optional>
#include <vector>

#include "model/words/measurement.h"

namespace versieve::db {

struct PointSummary {
  std::int64_t sample_count = 0;  // finite samples
  std::optional<double> median_ns;
  std::optional<double> median_low_ns;  // 95 % interval of the median; none below six samples
  std::optional<double> median_high_ns;
  std::optional<double> dram_bytes;       // read + written; none if a range lacks either counter
  std::optional<double> predicted_bytes;  // all terms of all ranges; none if zero
  std::optional<double> accepted;
};

PointSummary summarize(const PointMeasurement& point);

// Ranks (0-based) of the order statistics that hold the median of n samples with at least 95 %
// probability (binomial, exact to n = 1000, then by its normal limit); none below n = 6.
struct RankInterval {
  std::int64_t low = 0;
  std::int64_t high = 0;
};
std::optional<RankInterval> median_interval(std::int64_t n);

}  // namespace versieve::db
