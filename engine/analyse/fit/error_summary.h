// Errors of predictions, collected one by one and said in three numbers; how many of them an
// interval held.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/analyse/fit/statistics.h"

namespace versieve::engine {

// Relative errors |predicted / measured - 1|; empty where nothing was measured.
struct ErrorSummary {
  std::int64_t points = 0;
  std::optional<double> median_ape;
  std::optional<double> p90_ape;
  std::optional<double> median_signed;
};

// Collects ratios predicted / measured.
class Errors {
 public:
  void add(double predicted, std::optional<double> measured) {
    if (measured && *measured > 0.0) {
      ratios_.push_back(predicted / *measured - 1.0);
    }
  }

  ErrorSummary summary() const {
    std::vector<double> absolute;
    for (const double r : ratios_) {
      absolute.push_back(std::abs(r));
    }
    return {static_cast<std::int64_t>(ratios_.size()), median(absolute), quantile(absolute, 0.9),
            median(ratios_)};
  }

 private:
  std::vector<double> ratios_;
};

// Share of errors within their interval.
class Coverage {
 public:
  void add(std::optional<double> error, std::optional<double> half_width) {
    if (error && half_width) {
      judged_ += 1;
      covered_ += *error <= *half_width ? 1 : 0;
    }
  }
  void add(const Coverage& other) {
    judged_ += other.judged_;
    covered_ += other.covered_;
  }
  std::int64_t judged() const { return judged_; }
  std::optional<double> share() const {
    return judged_ == 0
               ? std::nullopt
               : std::optional(static_cast<double>(covered_) / static_cast<double>(judged_));
  }

 private:
  std::int64_t judged_ = 0;
  std::int64_t covered_ = 0;
};

}  // namespace versieve::engine
