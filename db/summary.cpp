#include "db/summary.h"

#include <algorithm>
#include <cmath>

#include "model/words/range_counters.h"

namespace versieve::db {
namespace {

std::optional<double> predicted_bytes(const std::vector<RangeMeasurement>& ranges) {
  double total = 0.0;
  for (const RangeMeasurement& range : ranges) {
    total += range.predicted.total();
  }
  return total == 0.0 || !std::isfinite(total) ? std::nullopt : std::optional<double>(total);
}

std::vector<double> finite_sorted(const std::vector<double>& samples) {
  std::vector<double> sorted;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(sorted),
               [](double sample) { return std::isfinite(sample); });
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

void summarize_time(const std::vector<double>& samples, PointSummary& summary) {
  const std::vector<double> sorted = finite_sorted(samples);
  const std::size_t n = sorted.size();
  summary.sample_count = static_cast<std::int64_t>(n);
  if (n == 0) {
    return;
  }
  summary.median_ns = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
  if (const std::optional<RankInterval> ranks = median_interval(summary.sample_count)) {
    summary.median_low_ns = sorted[static_cast<std::size_t>(ranks->low)];
    summary.median_high_ns = sorted[static_cast<std::size_t>(ranks->high)];
  }
}

}  // namespace

std::optional<RankInterval> median_interval(std::int64_t n) {
  constexpr double kTail = 0.025;
  constexpr std::int64_t kExactUpTo = 1000;
  if (n > kExactUpTo) {
    const double half = 1.96 * std::sqrt(static_cast<double>(n)) / 2.0;
    const std::int64_t low = static_cast<std::int64_t>(static_cast<double>(n) / 2.0 - half);
    return RankInterval{low, n - 1 - low};
  }
  // The median lies below the k-th smallest sample (0-based) with P(Bin(n, 1/2) <= k).
  double probability = std::pow(0.5, static_cast<double>(n));
  double below = 0.0;
  std::int64_t k = 0;
  while (below + probability <= kTail) {
    below += probability;
    probability *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  return k == 0 ? std::nullopt : std::optional<RankInterval>({k - 1, n - k});
}

PointSummary summarize(const PointMeasurement& point) {
  PointSummary summary;
  summarize_time(point.time_ns, summary);
  if (const std::optional<DramBytes> bytes = dram_bytes(point.ranges)) {
    summary.dram_bytes = bytes->total();
  }
  summary.predicted_bytes = predicted_bytes(point.ranges);
  if (point.acceptance && std::isfinite(point.acceptance->accepted_per_step)) {
    summary.accepted = point.acceptance->accepted_per_step;
  }
  return summary;
}

}  // namespace versieve::db
