// What a list of time samples says, and when it is long enough: median, spread, the interval of the
// median without any assumption about the distribution, and the stop rule. Pure functions of the
// samples; every sample is kept by whoever measured it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace versieve::profiler {

struct SampleSummary {
  std::int64_t count = 0;
  double median = 0.0;
  double mad = 0.0;          // median absolute deviation x 1.4826, the sigma of a normal sample
  double median_low = 0.0;   // 95 % order-statistic interval of the median
  double median_high = 0.0;  //
  double min = 0.0;
  double max = 0.0;

  // Half the interval's width, relative to the median.
  double relative_half_width() const;
};

double median_of(std::vector<double> samples);                 // REQUIRES: not empty
SampleSummary summary_of(const std::vector<double>& samples);  // REQUIRES: not empty

// When to stop taking samples.
struct StopPlan {
  std::int64_t min_samples = 30;
  std::int64_t max_samples = 2000;
  std::int64_t check_every = 16;    // looking after each sample would stop on luck
  double target_half_width = 0.01;  // relative, of the median's 95 % interval
  std::int64_t stall_window = 64;   // stop when that many samples narrowed it by < 5 %
  double time_limit_s = 2.0;        // of the whole measurement, from its first sample
  std::int64_t fixed_samples = 0;   // > 0: exactly that many, nothing else counts
};

// Tells after each sample whether to go on.
class StopRule {
 public:
  explicit StopRule(const StopPlan& plan) : plan_(plan) {}
  // None: take another sample. Otherwise why to stop: target, stalled, timeout, fixed.
  std::optional<std::string> reason_after(const std::vector<double>& samples, double elapsed_s);

 private:
  std::optional<std::string> judge(const std::vector<double>& samples);

  StopPlan plan_;
  std::int64_t checked_at_ = 0;
  double best_half_width_ = -1.0;  // the narrowest so far
  std::int64_t best_at_ = 0;       // and the sample count it was seen at
};

}  // namespace versieve::profiler
