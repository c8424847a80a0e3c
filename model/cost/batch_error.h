// What is not known of a step of several requests. No such step has been measured, so this is an
// assumption; a fit to points of several requests replaces this one function.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace versieve {

// Of log step time, for each doubling of the requests from one on (ragged attention, L2 that they
// share), and for each doubling of rows beyond the most that a step was measured with (products in
// the place of bandwidth).
inline constexpr double kRequestsLogError = 0.04;
inline constexpr double kRowsLogError = 0.04;

// Standard deviation of log step time of `requests` requests at once, `rows` nodes in all, beside
// what a step of one has; 0 of one request. measured_rows: nodes of the largest step that was.
inline double batch_log_error(std::int64_t requests, double rows, double measured_rows) {
  if (requests <= 1) {
    return 0.0;
  }
  const double beyond = std::max(0.0, std::log2(rows / std::max(1.0, measured_rows)));
  return kRequestsLogError * std::log2(static_cast<double>(requests)) + kRowsLogError * beyond;
}

}  // namespace versieve
