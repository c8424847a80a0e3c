#include "profiler/sample_statistics.h"

#include <algorithm>
#include <cmath>

#include "model/words/assert.h"

namespace versieve::profiler {
namespace {

double median_of_sorted(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

// 1-based rank of the interval's lower end: (n - 1.96 sqrt(n)) / 2, rounded outward. The upper end
// is its mirror image n + 1 - rank.
std::int64_t lower_rank(std::int64_t count) {
  const double n = static_cast<double>(count);
  const double rank = std::floor((n - 1.96 * std::sqrt(n)) / 2.0);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rank));
}

}  // namespace

double SampleSummary::relative_half_width() const {
  return median > 0.0 ? 0.5 * (median_high - median_low) / median : 0.0;
}

double median_of(std::vector<double> samples) {
  VERSIEVE_ASSERT(!samples.empty(), "the median of nothing was asked for");
  std::sort(samples.begin(), samples.end());
  return median_of_sorted(samples);
}

SampleSummary summary_of(const std::vector<double>& samples) {
  VERSIEVE_ASSERT(!samples.empty(), "the summary of nothing was asked for");
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  SampleSummary summary;
  summary.count = static_cast<std::int64_t>(sorted.size());
  summary.median = median_of_sorted(sorted);
  summary.min = sorted.front();
  summary.max = sorted.back();
  const std::int64_t rank = lower_rank(summary.count);
  summary.median_low = sorted[static_cast<std::size_t>(rank - 1)];
  summary.median_high = sorted[static_cast<std::size_t>(summary.count - rank)];
  std::vector<double> deviation = sorted;
  for (double& value : deviation) {
    value = std::abs(value - summary.median);
  }
  summary.mad = 1.4826 * median_of(std::move(deviation));
  return summary;
}

std::optional<std::string> StopRule::reason_after(const std::vector<double>& samples,
                                                  double elapsed_s) {
  const std::int64_t count = static_cast<std::int64_t>(samples.size());
  if (plan_.fixed_samples > 0) {
    return count >= plan_.fixed_samples ? std::optional<std::string>("fixed") : std::nullopt;
  }
  if (count > 0 && (elapsed_s >= plan_.time_limit_s || count >= plan_.max_samples)) {
    const bool reached = count >= plan_.min_samples &&
                         summary_of(samples).relative_half_width() <= plan_.target_half_width;
    return reached ? "target" : "timeout";
  }
  if (count < plan_.min_samples || count < checked_at_ + plan_.check_every) {
    return std::nullopt;
  }
  checked_at_ = count;
  return judge(samples);
}

std::optional<std::string> StopRule::judge(const std::vector<double>& samples) {
  const double half_width = summary_of(samples).relative_half_width();
  if (half_width <= plan_.target_half_width) {
    return "target";
  }
  const std::int64_t count = static_cast<std::int64_t>(samples.size());
  if (best_half_width_ < 0.0 || half_width < 0.95 * best_half_width_) {
    best_half_width_ = half_width;
    best_at_ = count;
  }
  return count - best_at_ >= plan_.stall_window ? std::optional<std::string>("stalled")
                                                : std::nullopt;
}

}  // namespace versieve::profiler
